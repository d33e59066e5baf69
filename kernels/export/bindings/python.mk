# make builds the library, which ctypes calls; make wheel writes a wheel with it and the weights; make run
# ARGS="../@name@.weights 4" runs the example. For other processors than this machine's see ../library.mk.
all: ../lib@name@.so

include ../library.mk
PYTHON ?= python3

.PHONY: run wheel
wheel: all
	$(PYTHON) wheel.py

run: all
	@$(PYTHON) example.py $(ARGS)
