/* Declarations of C11's library for 64-bit Windows, for tests that check syntax where no Windows SDK is: only what exported
 * programs may call, and none of GCC's words. */
#ifndef STDDEF_H
#define STDDEF_H
typedef unsigned long long size_t;
#define NULL ((void *)0)
#endif
