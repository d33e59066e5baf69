/* The weights file: safetensors. Eight bytes say how long a JSON text is, which names arrays with their types, shapes
 * and offsets; then come the arrays. Nothing in the file is believed before it is checked. */
typedef struct { const unsigned char *at, *end; } hy_text;
enum { HY_LONGEST = 512 };              /* bytes of a name that is compared; longer ones are read and equal nothing */

static int hy_peek(hy_text *t) {
  while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r')) t->at++;
  return t->at < t->end ? *t->at : -1;
}
static int hy_take(hy_text *t, int c) {
  if (hy_peek(t) != c) return 0;
  t->at++;
  return 1;
}
static int hy_hex(hy_text *t, unsigned *value) {
  *value = 0;
  for (int i = 0; i < 4; i++, t->at++) {
    if (t->at == t->end) return 0;
    const int c = *t->at, digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return 0;
    *value = *value * 16 + (unsigned)digit;
  }
  return 1;
}
/* A string; characters beyond ASCII that are written as \u are taken as '?', which no name has. */
static int hy_string(hy_text *t, char *out) {
  size_t n = 0;
  if (!hy_take(t, '"')) return 0;
  while (t->at < t->end && *t->at != '"') {
    unsigned c = *t->at++;
    if (c < 0x20) return 0;
    if (c == '\\') {
      if (t->at == t->end) return 0;
      c = *t->at++;
      if (c == 'u') { if (!hy_hex(t, &c)) return 0; if (c == 0 || c > 127) c = '?'; }
      else if (c == 'n') c = '\n';
      else if (c == 't') c = '\t';
      else if (c == 'r') c = '\r';
      else if (c == 'b') c = '\b';
      else if (c == 'f') c = '\f';
      else if (c != '"' && c != '\\' && c != '/') return 0;
    }
    if (n < HY_LONGEST) out[n++] = (char)c;
  }
  if (t->at == t->end) return 0;
  t->at++;
  out[n < HY_LONGEST ? n : HY_LONGEST - 1] = 0;
  if (n == HY_LONGEST) out[0] = 0;
  return 1;
}
static int hy_number(hy_text *t, uint64_t *value) {
  const int first = hy_peek(t);
  *value = 0;
  if (first < '0' || first > '9') return 0;
  for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
    if (*value > (UINT64_C(1) << 56)) return 0;
    *value = *value * 10 + (uint64_t)(*t->at - '0');
  }
  return 1;
}
/* [1, 2, …]: at most `most` numbers; how many, or -1. */
static int hy_numbers(hy_text *t, uint64_t *out, int most) {
  int n = 0;
  if (!hy_take(t, '[')) return -1;
  if (hy_take(t, ']')) return 0;
  do {
    if (n == most || !hy_number(t, &out[n])) return -1;
    n++;
  } while (hy_take(t, ','));
  return hy_take(t, ']') ? n : -1;
}
typedef struct { uint64_t version; char fingerprint[HY_LONGEST + 1], checksum[HY_LONGEST + 1]; } hy_metadata;
static int hy_read_metadata(hy_text *t, hy_metadata *out) {
  char key[HY_LONGEST + 1], value[HY_LONGEST + 1];
  if (!hy_take(t, '{')) return 0;
  if (hy_take(t, '}')) return 1;
  do {
    if (!hy_string(t, key) || !hy_take(t, ':') || !hy_string(t, value)) return 0;
    if (!strcmp(key, "hybrid.fingerprint")) strcpy(out->fingerprint, value);
    if (!strcmp(key, "hybrid.crc32")) strcpy(out->checksum, value);
    if (!strcmp(key, "hybrid.version")) {
      hy_text digits = {(const unsigned char *)value, (const unsigned char *)value + strlen(value)};
      if (!hy_number(&digits, &out->version) || digits.at != digits.end) return 0;
    }
  } while (hy_take(t, ','));
  return hy_take(t, '}');
}
enum { HY_AXES = 32 };
typedef struct { char dtype[HY_LONGEST + 1]; uint64_t shape[HY_AXES], offset[2]; int ndim; } hy_entry;
static int hy_read_entry(hy_text *t, hy_entry *out) {
  char key[HY_LONGEST + 1];
  int seen = 0;
  if (!hy_take(t, '{')) return 0;
  do {
    if (!hy_string(t, key) || !hy_take(t, ':')) return 0;
    const int bit = !strcmp(key, "dtype") ? 1 : !strcmp(key, "shape") ? 2 : !strcmp(key, "data_offsets") ? 4 : 0;
    if (!bit || seen & bit) return 0;
    seen |= bit;
    if (bit == 1 && !hy_string(t, out->dtype)) return 0;
    if (bit == 2 && (out->ndim = hy_numbers(t, out->shape, HY_AXES)) < 0) return 0;
    if (bit == 4 && hy_numbers(t, out->offset, 2) != 2) return 0;
  } while (hy_take(t, ','));
  return seen == 7 && hy_take(t, '}');
}
/* CRC-32, of ISO 3309, as zlib's: of some bytes and those before them. */
static uint32_t hy_crc32_more(uint32_t before, const unsigned char *data, size_t n) {
  uint32_t table[256], crc = ~before;
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
    table[i] = c;
  }
  for (size_t i = 0; i < n; i++) crc = crc >> 8 ^ table[(crc ^ data[i]) & 0xff];
  return ~crc;
}
static int hy_same_shape(const hy_entry *e, const @name@_array *a) {
  if (e->ndim != a->ndim) return 0;
  for (int i = 0; i < e->ndim; i++) if (e->shape[i] != (uint64_t)a->shape[i]) return 0;
  return 1;
}
/* One entry of the JSON text: where its array goes, and that it comes once. */
static int hy_place(const char *name, const hy_entry *e, const unsigned char *data, uint64_t size, char *const *to, unsigned char *seen) {
  for (int i = 0; i < HY_WEIGHTS; i++) {
    const @name@_array *a = &hy_weights[i];
    if (strcmp(a->name, name)) continue;
    if (seen[i]) return @NAME@_ERROR_FORMAT;
    if (strcmp(e->dtype, hy_dtype_names[a->dtype]) || !hy_same_shape(e, a)) return @NAME@_ERROR_ARRAYS;
    if (e->offset[1] > size || e->offset[0] > e->offset[1] || e->offset[1] - e->offset[0] != a->bytes) return @NAME@_ERROR_FORMAT;
    if (a->bytes) memcpy(to[i], data + e->offset[0], a->bytes);
    seen[i] = 1;
    return @NAME@_OK;
  }
  return @NAME@_ERROR_ARRAYS;
}
/* All arrays of a weights file in memory, each to its place. */
static int hy_read_weights(const unsigned char *bytes, size_t size, char *const *to) {
  unsigned char seen[HY_WEIGHTS + 1] = {0};
  const uint16_t one = 1;
  unsigned char low;
  uint64_t header = 0;
  memcpy(&low, &one, 1);
  if (!low) return @NAME@_ERROR_MACHINE;
  if (size < 8) return @NAME@_ERROR_FORMAT;
  memcpy(&header, bytes, 8);
  if (header > size - 8) return @NAME@_ERROR_FORMAT;
  hy_text t = {bytes + 8, bytes + 8 + header};
  const unsigned char *data = t.end;
  hy_metadata about = {0, "", ""};
  int wrong = @NAME@_OK, metadata = 0;
  if (!hy_take(&t, '{')) return @NAME@_ERROR_FORMAT;
  if (!hy_take(&t, '}')) {
    do {
      char name[HY_LONGEST + 1];
      hy_entry e = {"", {0}, {0}, 0};
      if (!hy_string(&t, name) || !hy_take(&t, ':')) return @NAME@_ERROR_FORMAT;
      if (!strcmp(name, "__metadata__")) {
        if (metadata++ || !hy_read_metadata(&t, &about)) return @NAME@_ERROR_FORMAT;
        continue;
      }
      if (!hy_read_entry(&t, &e)) return @NAME@_ERROR_FORMAT;
      const int code = hy_place(name, &e, data, size - 8 - header, to, seen);
      if (!wrong) wrong = code;
    } while (hy_take(&t, ','));
    if (!hy_take(&t, '}')) return @NAME@_ERROR_FORMAT;
  }
  if (hy_peek(&t) >= 0) return @NAME@_ERROR_FORMAT;
  if (!metadata || about.version != @NAME@_VERSION) return @NAME@_ERROR_VERSION;
  if (strcmp(about.fingerprint, @NAME@_FINGERPRINT)) return @NAME@_ERROR_FINGERPRINT;
  if (wrong) return wrong;
  for (int i = 0; i < HY_WEIGHTS; i++) if (!seen[i]) return @NAME@_ERROR_ARRAYS;
  char crc[16];
  snprintf(crc, sizeof crc, "%08lx", (unsigned long)hy_crc32_more(0, data, size - 8 - (size_t)header));
  return strcmp(crc, about.checksum) ? @NAME@_ERROR_CHECKSUM : @NAME@_OK;
}
/* A whole file, to be freed; null and a code where it cannot be read. */
static unsigned char *hy_read_file(const char *path, size_t *size, int *error) {
  FILE *file = fopen(path, "rb");
  unsigned char *bytes = NULL;
  size_t room = 0, n = 0;
  *error = @NAME@_ERROR_FILE;
  if (!file) return NULL;
  for (;;) {
    if (n == room) {
      room = room ? room * 2 : 1 << 16;
      unsigned char *more = room > n ? (unsigned char *)realloc(bytes, room) : NULL;
      if (!more) { free(bytes), fclose(file); *error = @NAME@_ERROR_MEMORY; return NULL; }
      bytes = more;
    }
    const size_t got = fread(bytes + n, 1, room - n, file);
    n += got;
    if (!got) break;
  }
  const int failed = ferror(file);
  fclose(file);
  if (failed) { free(bytes); return NULL; }
  *size = n, *error = @NAME@_OK;
  return bytes;
}
