package @name@;

/** Thrown with the code of the C library and its words. */
public final class ModelException extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private final int code;

  ModelException(int code, String what) {
    super(what);
    this.code = code;
  }

  public int code() {
    return code;
  }
}
