/* Working memory that the launchers of one program share, those for other sizes too: a call takes a block that is large
 * enough and gives it back. */
enum { MAX_ARENAS = 16 };
typedef struct Arenas {
  struct Arenas *next; void (*net)(void **); int launchers, blocks; void *block[MAX_ARENAS];
  size_t bytes[MAX_ARENAS];
} Arenas;
static Arenas *every_arenas;

/* Those of a program, for one launcher more; NULL: no memory. */
static Arenas *join_arenas(void (*net)(void **)) {
  Arenas *found = every_arenas;
  while (found && found->net != net) found = found->next;
  if (!found && (found = PyMem_Calloc(1, sizeof *found))) found->net = net, found->next = every_arenas,
      every_arenas = found;
  if (found) found->launchers++;
  return found;
}

static void leave_arenas(Arenas *arenas) {
  if (!arenas || --arenas->launchers) return;
  Arenas **at = &every_arenas;
  while (*at != arenas) at = &(*at)->next;
  *at = arenas->next;
  while (arenas->blocks) free(arenas->block[--arenas->blocks]);
  PyMem_Free(arenas);
}

/* A block of so many bytes, or more: then bytes are changed. */
static void *take_arena(Arenas *arenas, size_t *bytes) {
  if (!arenas->blocks) return aligned_alloc(64, *bytes);
  void *block = arenas->block[--arenas->blocks];
  if (arenas->bytes[arenas->blocks] >= *bytes) { *bytes = arenas->bytes[arenas->blocks]; return block; }
  free(block);
  return aligned_alloc(64, *bytes);
}

static void give_arena(Arenas *arenas, void *block, size_t bytes) {
  if (arenas->blocks == MAX_ARENAS) { free(block); return; }
  arenas->bytes[arenas->blocks] = bytes, arenas->block[arenas->blocks++] = block;
}
