"""``mxnet`` in processes that were started by one where it means hybrid, and took over its sys.path."""
import sys

import hybrid.alias

sys.modules[__name__] = hybrid.alias.install()
