# make builds the classes of Java and Scala; make run ARGS="../@name@.weights 4" runs the example.
all: classes/@name@/ScalaExample.class

include ../library.mk

.PHONY: java run
java:
	$(MAKE) -C ../java

classes/@name@/ScalaExample.class: Network.scala ScalaExample.scala | java
	mkdir -p classes
	scalac -nobootcp -classpath ../java/classes -d classes Network.scala ScalaExample.scala

run: all
	@scala -nobootcp -Djava.library.path=../java -cp classes:../java/classes @name@.ScalaExample $(ARGS)
