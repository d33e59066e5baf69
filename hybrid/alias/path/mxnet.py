"""``mxnet`` in processes that were started by one where it means hybrid, and took over its sys.path."""
import hybrid.alias

hybrid.alias.install()
