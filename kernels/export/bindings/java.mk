# make builds the library for Java and the classes; make run ARGS="../@name@.weights 4" runs the example.
all: lib@name@_java.so classes/@name@/Example.class

include ../library.mk
JAVA_HOME ?= $(patsubst %/bin/javac,%,$(realpath $(shell command -v javac)))
HEADERS = $(JAVA_HOME)/include $(dir $(wildcard $(JAVA_HOME)/include/*/jni_md.h))
SOURCES = @name@/Model.java @name@/ModelException.java @name@/Example.java

lib@name@_java.so: @name@_java.c ../lib@name@.a
	$(CC) -std=c11 -O2 -fPIC -shared -I.. $(addprefix -I,$(HEADERS)) $< ../lib@name@.a -o $@ $(LIBRARIES)

classes/@name@/Example.class: $(SOURCES)
	javac -d classes $(SOURCES)

.PHONY: run
run: all
	@java -Djava.library.path=. -cp classes @name@.Example $(ARGS)
