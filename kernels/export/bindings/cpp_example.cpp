// Loads @name@.weights, runs the model once and prints the first numbers of each output.
//
//     make && ./example ../@name@.weights [threads [input.bin ... [output.bin ...]]]
//
// input.bin: an input's elements as they are in memory, in C order (NumPy: x.tofile("input.bin")); zeros without it.
// output.bin: where an output goes, in the same form.
#include "@name@.hpp"
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

template <class T>
std::vector<T> argument(int argc, char **argv, int place, std::size_t size) {
  if (argc <= place) return std::vector<T>(size);
  std::ifstream file(argv[place], std::ios::binary);
  if (!file) throw std::runtime_error(std::string(argv[place]) + ": the file cannot be opened");
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

template <class T>
void result(int argc, char **argv, int place, const char *name, const std::vector<T> &values) {
  std::cout << name << ":";
  for (std::size_t i = 0; i < values.size() && i < 10; i++) std::cout << " " << +values[i];
  std::cout << "\n";
  if (argc > place)
    std::ofstream(argv[place], std::ios::binary).write(reinterpret_cast<const char *>(values.data()),
                                                       static_cast<std::streamsize>(values.size() * sizeof(T)));
}

int main(int argc, char **argv) {
  try {
    const @name@::model model(argc > 1 ? argv[1] : "../@name@.weights", argc > 2 ? std::stoi(argv[2]) : 1);
@READ@
@ROOM@
    model.run(@ALL@);
@WRITE@
    return 0;
  } catch (const std::exception &e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
