#include <stddef.h>
void *malloc(size_t), *calloc(size_t, size_t), *realloc(void *, size_t);
void free(void *);
int atoi(const char *);
double atof(const char *);
long strtol(const char *, char **, int);
double strtod(const char *, char **);
long long strtoll(const char *, char **, int);
