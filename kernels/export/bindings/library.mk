# The library of @name@, for the bindings in the folders beside this file. CFLAGS are those that give Python's bits with
# the same compiler; for other processors than this machine's: make CFLAGS="-O3 -march=x86-64-v3".
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
ifeq ($(origin CC),default)
CC := gcc
endif
CFLAGS ?= @FLAGS@
LIBRARIES := -lm -lpthread
ARGS ?= ../@name@.weights

$(HERE)@name@.o: $(HERE)@name@.c $(HERE)@name@.h
	$(CC) -std=c11 $(CFLAGS) -fPIC -c $< -o $@

$(HERE)lib@name@.a: $(HERE)@name@.o
	ar rcs $@ $<

$(HERE)lib@name@.so: $(HERE)@name@.o
	$(CC) -shared $< -o $@ $(LIBRARIES)
