# make compiles @name@ to WebAssembly with SIMD, by Emscripten 3.1 or newer (Debian: emscripten); make threads compiles it
# once more for several threads (Debian: node-acorn); make pack writes an npm package; make run ARGS="../@name@.weights 1"
# runs the example in Node.js.
EMCC ?= emcc
EMFLAGS ?= -O3 -msimd128 -fno-math-errno -fno-trapping-math
NAMES = load_bytes run free set_threads error_text
comma := ,
empty :=
space := $(empty) $(empty)
EXPORTED = $(subst $(space),$(comma),$(NAMES:%=_@name@_%) _malloc _free)
EMCC_LINK = -s FILESYSTEM=0 -s ALLOW_MEMORY_GROWTH=1 -s EXPORTED_FUNCTIONS=$(EXPORTED)
ARGS ?= ../@name@.weights
export NODE_PATH ?= /usr/share/nodejs

all: @name@.wasm @name@.weights

@name@.wasm: ../@name@.c ../@name@.h
	$(EMCC) -std=gnu11 $(EMFLAGS) -D@NAME@_NO_THREADS $< --no-entry -s STANDALONE_WASM=1 $(EMCC_LINK) -o $@

@name@_threads.cjs: ../@name@.c ../@name@.h
	$(EMCC) -std=gnu11 $(EMFLAGS) -pthread -Wno-pthreads-mem-growth $< $(EMCC_LINK) -s MODULARIZE=1 \
	  -s EXPORT_NAME=@name@_threads -s ENVIRONMENT=web,worker,node -s 'PTHREAD_POOL_SIZE=Module["workers"]' -o @name@_threads.js
	mv @name@_threads.worker.js @name@_threads.worker.cjs
	mv @name@_threads.js $@

@name@.weights: ../@name@.weights
	cp $< $@

.PHONY: all threads pack run
threads: all @name@_threads.cjs

pack: all
	npm pack --silent

run: all
	@node example.mjs $(ARGS)
