// Loads @name@.weights, runs the model once and prints the first numbers of each output.
//
//	make && ./example/example ../@name@.weights [threads [input.bin ... [output.bin ...]]]
//
// input.bin: an input's elements as they are in memory, in C order (NumPy: x.tofile("input.bin")); zeros without it.
// output.bin: where an output goes, in the same form.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"

	"@name@"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// argument gives the elements of a file, or zeros. Processors on which this runs are little-endian.
func argument[T any](place, size int) []T {
	if len(os.Args) <= place {
		return make([]T, size)
	}
	content, err := os.ReadFile(os.Args[place])
	check(err)
	var one T
	values := make([]T, len(content)/binary.Size(one))
	check(binary.Read(bytes.NewReader(content), binary.LittleEndian, values))
	return values
}

func result[T any](place int, name string, values []T) {
	fmt.Print(name, ":")
	for i := 0; i < len(values) && i < 10; i++ {
		fmt.Print(" ", values[i])
	}
	fmt.Println()
	if len(os.Args) > place {
		var content bytes.Buffer
		check(binary.Write(&content, binary.LittleEndian, values))
		check(os.WriteFile(os.Args[place], content.Bytes(), 0o644))
	}
}

func main() {
	path, threads := "../@name@.weights", 1
	var err error
	if len(os.Args) > 1 {
		path = os.Args[1]
	}
	if len(os.Args) > 2 {
		threads, err = strconv.Atoi(os.Args[2])
		check(err)
	}
	model, err := @name@.Load(path, threads)
	check(err)
	defer model.Close()
@READ@
	@LEFT@, err := model.Run(@RIGHT@)
	check(err)
@WRITE@
}
