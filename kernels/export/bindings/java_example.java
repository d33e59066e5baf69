package @name@;

import java.io.IOException;
import java.lang.reflect.Array;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Paths;

/**
 * Loads @name@.weights, runs the model once and prints the first numbers of each output.
 *
 * <p>make run ARGS="../@name@.weights [threads [input.bin ... [output.bin ...]]]"
 *
 * <p>input.bin: an input's elements as they are in memory, in C order (NumPy: x.tofile("input.bin")); zeros without it.
 * output.bin: where an output goes, in the same form.
 */
public final class Example {
  private static int bytes(Class<?> type) {
    if (type == byte.class || type == boolean.class) return 1;
    return type == short.class ? 2 : type == int.class || type == float.class ? 4 : 8;
  }

  /** The elements of a file, or zeros: an array of elements of a type. */
  static Object argument(String[] args, int place, Class<?> type, int size) throws IOException {
    if (args.length <= place) return Array.newInstance(type, size);
    ByteBuffer content = ByteBuffer.wrap(Files.readAllBytes(Paths.get(args[place]))).order(ByteOrder.nativeOrder());
    Object values = Array.newInstance(type, content.remaining() / bytes(type));
    for (int i = 0; i < Array.getLength(values); i++) {
      if (type == float.class) Array.setFloat(values, i, content.getFloat());
      else if (type == double.class) Array.setDouble(values, i, content.getDouble());
      else if (type == long.class) Array.setLong(values, i, content.getLong());
      else if (type == int.class) Array.setInt(values, i, content.getInt());
      else if (type == short.class) Array.setShort(values, i, content.getShort());
      else if (type == byte.class) Array.setByte(values, i, content.get());
      else Array.setBoolean(values, i, content.get() != 0);
    }
    return values;
  }

  /** Prints an array of elements, and writes it where a file is named. */
  static void result(String[] args, int place, String name, Object values) throws IOException {
    Class<?> type = values.getClass().getComponentType();
    int size = Array.getLength(values);
    ByteBuffer content = ByteBuffer.allocate(size * bytes(type)).order(ByteOrder.nativeOrder());
    StringBuilder line = new StringBuilder(name + ":");
    for (int i = 0; i < size; i++) {
      if (i < 10) line.append(' ').append(Array.get(values, i));
      if (type == float.class) content.putFloat(Array.getFloat(values, i));
      else if (type == double.class) content.putDouble(Array.getDouble(values, i));
      else if (type == long.class) content.putLong(Array.getLong(values, i));
      else if (type == int.class) content.putInt(Array.getInt(values, i));
      else if (type == short.class) content.putShort(Array.getShort(values, i));
      else if (type == byte.class) content.put(Array.getByte(values, i));
      else content.put((byte) (Array.getBoolean(values, i) ? 1 : 0));
    }
    System.out.println(line);
    if (args.length > place) Files.write(Paths.get(args[place]), content.array());
  }

  public static void main(String[] args) throws IOException {
    String path = args.length > 0 ? args[0] : "../@name@.weights";
    try (Model model = new Model(path, args.length > 1 ? Integer.parseInt(args[1]) : 1)) {
@READ@
      @ALL@ = model.run(@IDENTS@);
@WRITE@
    } catch (ModelException | IllegalArgumentException e) {
      System.err.println(e.getMessage());
      System.exit(1);
    }
  }
}
