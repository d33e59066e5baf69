/* What @name@/Model.java calls of the C library. Java's arrays move in memory: their elements are copied. */
#include "@name@.h"
#include <jni.h>
#include <stdlib.h>
#include <string.h>

#define METHOD(type, name) JNIEXPORT type JNICALL Java_@MANGLED@_Model_##name
#define ROUNDED(n) (((n) + 63) / 64 * 64)

METHOD(jlong, load)(JNIEnv *env, jclass self, jstring path, jintArray code) {
  int error = @NAME@_ERROR_ARGUMENT;
  @name@_model *model = NULL;
  const char *text = path ? (*env)->GetStringUTFChars(env, path, NULL) : NULL;
  (void)self;
  if (text) {
    model = @name@_load(text, &error);
    (*env)->ReleaseStringUTFChars(env, path, text);
  }
  const jint value = error;
  (*env)->SetIntArrayRegion(env, code, 0, 1, &value);
  return (jlong)(intptr_t)model;
}

METHOD(void, free)(JNIEnv *env, jclass self, jlong handle) {
  (void)env, (void)self;
  @name@_free((@name@_model *)(intptr_t)handle);
}

METHOD(jint, setThreads)(JNIEnv *env, jclass self, jlong handle, jint threads) {
  (void)env, (void)self;
  return @name@_set_threads((@name@_model *)(intptr_t)handle, threads);
}

METHOD(jstring, words)(JNIEnv *env, jclass self, jint code) {
  (void)self;
  return (*env)->NewStringUTF(env, @name@_error_text(code));
}

/* Elements of one array of Java's, from it or to it; whether it could be reached. */
static int copied(JNIEnv *env, jobjectArray arrays, int i, void *memory, size_t bytes, int out) {
  jobject array = (*env)->GetObjectArrayElement(env, arrays, i);
  void *elements = (*env)->GetPrimitiveArrayCritical(env, array, NULL);
  if (elements) {
    if (out) memcpy(elements, memory, bytes);
    else memcpy(memory, elements, bytes);
    (*env)->ReleasePrimitiveArrayCritical(env, array, elements, out ? 0 : JNI_ABORT);
  }
  (*env)->DeleteLocalRef(env, array);
  return elements != NULL;
}

METHOD(jint, run)(JNIEnv *env, jclass self, jlong handle, jobjectArray given, jobjectArray results) {
  const void *inputs[@NAME@_INPUTS];
  void *outputs[@NAME@_OUTPUTS];
  size_t size = 0;
  int error = @NAME@_OK, reached = 1;
  (void)self;
  for (int i = 0; i < @NAME@_INPUTS; i++) size += ROUNDED(@name@_inputs[i].bytes);
  for (int i = 0; i < @NAME@_OUTPUTS; i++) size += ROUNDED(@name@_outputs[i].bytes);
  char *memory = malloc(size), *at = memory;
  if (!memory) return @NAME@_ERROR_MEMORY;
  for (int i = 0; i < @NAME@_INPUTS; at += ROUNDED(@name@_inputs[i].bytes), i++) {
    inputs[i] = at;
    reached = reached && copied(env, given, i, at, @name@_inputs[i].bytes, 0);
  }
  for (int i = 0; i < @NAME@_OUTPUTS; at += ROUNDED(@name@_outputs[i].bytes), i++) outputs[i] = at;
  error = reached ? @name@_run((const @name@_model *)(intptr_t)handle, inputs, outputs) : @NAME@_ERROR_MEMORY;
  for (int i = 0; i < @NAME@_OUTPUTS && !error; i++)
    if (!copied(env, results, i, outputs[i], @name@_outputs[i].bytes, 1)) error = @NAME@_ERROR_MEMORY;
  free(memory);
  return error;
}
