/* trace_format.h - the format of a trace and the requests that control the tracer (C and C++).
 *
 * Layout     A trace is a sequence of 64-bit words in the machine's byte order. The first word is
 *            TRACE_MAGIC. In each other word, bits 60..63 are the kind, bits 48..59 its small value
 *            and bits 0..47 an address or argument.
 *            run       straight-line code: instructions (4 bits, from bit 48) and bytes (8 bits,
 *                      from bit 52); address of the first byte
 *            load      size in bytes; address
 *            store     the same
 *            branch    1 = taken; address of the conditional branch
 *            indirect  address of an indirect jump or call; its target is the next run
 *            call      the return address that it pushes
 *            ret       address of the return; its target is the next run
 *            stack     the stack pointer, if it differs much from the last value written
 *            mark      code; argument: a mark of the program (LOCKSTEP_TRACE_MARK)
 *            watch     low 12 bits of the second argument; entry of a function that the program
 *                      asked to watch
 */
#ifndef LOCKSTEP_TOOLS_ICACHE_TRACE_FORMAT_H
#define LOCKSTEP_TOOLS_ICACHE_TRACE_FORMAT_H

#include <valgrind/valgrind.h>

enum TraceKind {
    kTraceRun = 1,
    kTraceLoad = 2,
    kTraceStore = 3,
    kTraceBranch = 4,
    kTraceIndirect = 5,
    kTraceCall = 6,
    kTraceReturn = 7,
    kTraceStack = 8,
    kTraceMark = 9,
    kTraceWatch = 10
};

#define TRACE_MAGIC 0x31656361724b534cULL /* "LSKrace1" */
#define TRACE_ADDRESS_BITS 48
#define TRACE_ADDRESS_MASK ((1ULL << TRACE_ADDRESS_BITS) - 1)
#define TRACE_KIND_SHIFT 60
#define TRACE_RUN_BYTES_MAX 255
#define TRACE_RUN_INSTRUCTIONS_MAX 15

/* Marks of the workloads. */
enum TraceMark {
    kMarkOpBegin = 1, /* argument: number of the user thread */
    kMarkOpEnd = 2,   /* the same */
    kMarkUnits = 3,   /* argument: transactions done so far */
    kMarkSegment = 4  /* argument: number of the part of the plan that begins */
};

/* Requests to the tracer. Without a tracer they are a few instructions without effect. */
enum TraceRequest {
    kTraceStart = VG_USERREQ_TOOL_BASE('L', 'S'),
    kTraceStop,
    kTraceNote,
    kTraceWatchEntry
};
/* Recording begins, on the calling kernel thread only. */
#define LOCKSTEP_TRACE_START VALGRIND_DO_CLIENT_REQUEST_STMT(kTraceStart, 0, 0, 0, 0, 0)
#define LOCKSTEP_TRACE_STOP VALGRIND_DO_CLIENT_REQUEST_STMT(kTraceStop, 0, 0, 0, 0, 0)
#define LOCKSTEP_TRACE_WATCH(function) \
    VALGRIND_DO_CLIENT_REQUEST_STMT(kTraceWatchEntry, function, 0, 0, 0, 0)
#define LOCKSTEP_TRACE_MARK(code, argument) \
    VALGRIND_DO_CLIENT_REQUEST_STMT(kTraceNote, code, argument, 0, 0, 0)

#endif
