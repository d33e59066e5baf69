// @name@ for C++17: a class over @name@.h with spans and exceptions. Link with @name@.c.
#ifndef @NAME@_HPP
#define @NAME@_HPP
#include "@name@.h"
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace @name@ {

// Thrown with the words of an error code.
class error : public std::runtime_error {
 public:
  explicit error(int code, const std::string &what) : std::runtime_error(what + ": " + @name@_error_text(code)), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};

// Elements that lie beside each other in memory, of anything with data() and size(): vectors, arrays, std::span.
template <class T>
class span {
 public:
  span(T *data, std::size_t size) : data_(data), size_(size) {}
  template <class C, class = std::enable_if_t<std::is_convertible<decltype(std::declval<C &>().data()), T *>::value>>
  span(C &&c) : data_(c.data()), size_(c.size()) {}
  T *data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  T *data_;
  std::size_t size_;
};

class model {
 public:
  explicit model(const std::string &path, int threads = 1) {
    int code = 0;
    model_.reset(@name@_load(path.c_str(), &code));
    if (!model_) throw error(code, path);
    check(@name@_set_threads(model_.get(), threads), "@name@_set_threads");
  }
@METHODS@

  @name@_model *get() const { return model_.get(); }

 private:
  struct free { void operator()(@name@_model *m) const { @name@_free(m); } };
  static void check(int code, const char *what) { if (code) throw error(code, what); }
  template <class T>
  static void fits(span<T> s, const @name@_array &a, std::size_t bytes) {
    if (s.size() * sizeof(T) != bytes)
      throw std::length_error(std::string(a.name) + " has " + std::to_string(bytes / sizeof(T)) + " elements, got " + std::to_string(s.size()));
  }
  std::unique_ptr<@name@_model, free> model_;
};

}  // namespace @name@
#endif
