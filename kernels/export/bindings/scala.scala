package @name@

/** The model for Scala: Network.using(path, threads) { model => model.run(...) }, which closes it at the end. */
object Network {
  def using[T](path: String, threads: Int = 1)(work: Model => T): T = {
    val model = new Model(path, threads)
    try work(model) finally model.close()
  }
}
