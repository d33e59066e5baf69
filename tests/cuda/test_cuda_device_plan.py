"""kernels/c/device_plan.c by itself: what its caller may leave out, checked by the C compiler."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hybrid import kernels
from hybrid.runtime.cuda import native

DRIVER = f"""
_Static_assert(sizeof(Driver) == {len(native.FUNCTIONS) + 1} * sizeof(void *), "a place for each function");
""" + """
#include <stdlib.h>
static int made, at_64 = 1;
static int encode(void *map, int type, uint32_t rank, void *base, const uint64_t *size, const uint64_t *stride,
                  const uint32_t *box, const uint32_t *every, int interleave, int swizzle, int promotion, int fill) {
  made++, at_64 &= (uintptr_t)map % 64 == 0;
  return base != (void *)(uintptr_t)(0x1000 + 8 * rank);
}
static int launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned s,
                  void *stream, void **arguments, void **extra) { return 0; }
static Driver driver = {.launch = launch, .encode = encode};
"""
NOTHING = DRIVER + """
int main(void) {
  int failed = 1;
  Plan *p = hy_device_plan(&driver, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 1, 0);
  if (!p || hy_device_run(p, NULL, NULL, 0, &failed) || failed) return 1;
  hy_device_free(p);
  hy_device_free(NULL);
  return 0;
}
"""
MAPS = DRIVER + """
int main(void) {
  int failed, index[] = {0, 1, 2};
  void *table[] = {(void *)0x1000, (void *)0x1000, (void *)0x1000};
  Launch launches[] = {{.grid = {1, 1, 1}, .block = {32, 1, 1}, .first = 0, .count = 3}};
  Map maps[3] = {{0}};
  for (int i = 0; i < 3; i++) maps[i].argument = i, maps[i].rank = 1, maps[i].offset = 8;
  for (int count = 1; count <= 3; count++) {
    Plan *p = hy_device_plan(&driver, launches, 1, index, 3, NULL, 0, maps, count, 1, 0);
    if (!p || hy_device_run(p, table, NULL, 0, &failed) || hy_device_run(p, table, NULL, 0, &failed)) return 1;
    hy_device_free(p);
  }
  return !at_64 || made != 1 + 2 + 3;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.parametrize("program", [NOTHING, MAPS], ids=["nothing", "maps"])
def test_arrays_may_be_empty_and_maps_lie_where_they_must(program: str, tmp_path: Path) -> None:
    """Nothing that C leaves undefined, in a plan of no launches and in plans of some tensor maps."""
    (tmp_path / "plan.c").write_text(kernels.self_contained("c", "device_plan.c") + program)
    made = subprocess.run(["gcc", "-Wall", "-Werror", "-O1", "-fsanitize=address,undefined",
                           "-fno-sanitize-recover=all", str(tmp_path / "plan.c"), "-o", str(tmp_path / "plan"),
                           "-lpthread"], capture_output=True, text=True)
    if "cannot find" in made.stderr:
        pytest.skip("gcc has no sanitizers")
    assert made.returncode == 0, made.stderr
    done = subprocess.run([str(tmp_path / "plan")], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
