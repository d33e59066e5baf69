#include <stddef.h>
typedef struct file FILE;
FILE *standard_file(unsigned);
#define stdout standard_file(1)
#define stderr standard_file(2)
#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2
FILE *fopen(const char *, const char *);
size_t fread(void *, size_t, size_t, FILE *), fwrite(const void *, size_t, size_t, FILE *);
long ftell(FILE *);
int fclose(FILE *), ferror(FILE *), fflush(FILE *), fseek(FILE *, long, int), remove(const char *);
int rename(const char *, const char *);
int printf(const char *, ...), fprintf(FILE *, const char *, ...), snprintf(char *, size_t, const char *, ...);
