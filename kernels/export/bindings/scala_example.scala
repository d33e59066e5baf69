package @name@

/** Loads @name@.weights, runs the model once and prints the first numbers of each output.
  *
  * make run ARGS="../@name@.weights [threads [input.bin ... [output.bin ...]]]"
  *
  * input.bin: an input's elements as they are in memory, in C order; zeros without it. output.bin: where an output goes.
  */
object ScalaExample {
  def main(args: Array[String]): Unit = {
    val path = if (args.length > 0) args(0) else "../@name@.weights"
    val threads = if (args.length > 1) args(1).toInt else 1
    try Network.using(path, threads) { model =>
@READ@
      val @ALL@ = model.run(@IDENTS@)
@WRITE@
    } catch {
      case e @ (_: ModelException | _: IllegalArgumentException) =>
        System.err.println(e.getMessage)
        sys.exit(1)
    }
  }
}
