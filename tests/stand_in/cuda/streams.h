/* Streams of the stand-in for the driver: see streams.c. */
#include <stddef.h>

typedef struct Stream Stream;
typedef struct { Stream *stream; long number; } Point;       /* a place in a stream's work, as an event has it */
struct Graph;
struct Graph *hy_capture(Stream *);                           /* the graph that a stream is captured for; NULL */
void hy_set_capture(Stream *, struct Graph *);
Stream *hy_stream(void *handle);                              /* of a handle of the API, on the current device */
Stream *hy_new_stream(int blocking);
void hy_enqueue(Stream *, void (*run)(void *), void *data);   /* run frees the data */
void hy_wait_for(Stream *, Point);
Point hy_point(Stream *);
int hy_reached(Point);
void hy_reach(Point);
void hy_reach_device(void);                                   /* all streams of the current device */
