package @name@;

import java.util.concurrent.locks.ReentrantReadWriteLock;

/** The network with its weights. Threads may share it. Give its memory back with close. */
public final class Model implements AutoCloseable {
  static {
    System.loadLibrary("@name@_java");
  }
@CLASS@
  private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
  private long handle;

  /** The model with the weights of a file. */
  public Model(String path) {
    this(path, 1);
  }

  /** The model with the weights of a file; each call uses so many threads. */
  public Model(String path, int threads) {
    int[] code = new int[1];
    handle = load(path, code);
    if (handle == 0) throw new ModelException(code[0], path + ": " + words(code[0]));
    int error = setThreads(handle, threads);
    if (error != 0) {
      close();
      throw new ModelException(error, "@name@_set_threads: " + words(error));
    }
  }

  /** Computes the outputs from the inputs, whose elements are in C order. */
  public @RESULT@ run(@PARAMETERS@) {
@FITS@
@ROOM@
    lock.readLock().lock();
    try {
      int error = run(handle, new Object[] {@GIVEN@}, new Object[] {@NAMES@});
      if (error != 0) throw new ModelException(error, "@name@_run: " + words(error));
    } finally {
      lock.readLock().unlock();
    }
    return @RESULTS@;
  }

  @Override
  public void close() {
    lock.writeLock().lock();
    try {
      if (handle != 0) free(handle);
      handle = 0;
    } finally {
      lock.writeLock().unlock();
    }
  }

  private static void fits(String name, int wanted, int got) {
    if (wanted != got) throw new IllegalArgumentException(name + " has " + wanted + " elements, got " + got);
  }

  private static native long load(String path, int[] code);

  private static native void free(long handle);

  private static native int setThreads(long handle, int threads);

  private static native int run(long handle, Object[] inputs, Object[] outputs);

  private static native String words(int code);
}
