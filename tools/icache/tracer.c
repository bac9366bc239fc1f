/* tracer.c - a valgrind tool that writes the instruction, data and branch stream of one thread.
 *
 * Concepts   The program runs without instrumentation until it asks for the recording to start.
 *            Then all translations are thrown away and made anew with calls that append words to
 *            a buffer (trace_format.h). So loads and warm-ups cost little, and the trace holds
 *            nothing but the region. Addresses repeat exactly: valgrind lays memory out itself,
 *            and everything runs on one CPU. This file is built against the headers and archives
 *            that the valgrind package installs; valgrind itself is not changed.
 */
#include "pub_tool_basics.h"
#include "pub_tool_guest.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_transtab.h"
#include "pub_tool_vki.h"

#include "trace_format.h"

#define BUFFER_WORDS (1 << 17)
#define WATCHED_MAX 8
#define LINE_BITS_MIN 5 /* the shortest line of any cache that matters: 32 bytes */
#define STACK_STEP 1024 /* a smaller change of the stack pointer is a call, not a switch */

static const HChar* option_file = NULL;
static Bool option_from_start = False;
static Bool option_data = True;

static Int file = -1;
static ULong buffer[BUFFER_WORDS];
static UInt filled = 0;
static Bool instrumenting = False; /* new translations get calls */
static Bool recording = False;     /* and the recorded thread is running */
static ThreadId recorded = VG_INVALID_THREADID;
static Bool wanted = False; /* between start and stop */
static Addr last_stack = 0;
static Addr watched[WATCHED_MAX];
static UInt watched_count = 0;

static void write_buffer(void) {
    const UChar* next = (const UChar*)buffer;
    Int left = (Int)(filled * sizeof(ULong));
    while (left > 0) {
        Int n = VG_(write)(file, next, left);
        if (n <= 0) {
            VG_(fmsg)("the trace file cannot be written (disk full?)\n");
            VG_(exit)(1);
        }
        next += n;
        left -= n;
    }
    filled = 0;
}

static void put(ULong word) {
    buffer[filled++] = word;
    if (filled == BUFFER_WORDS) write_buffer();
}

static ULong word_of(ULong kind, ULong small, ULong address) {
    return (kind << TRACE_KIND_SHIFT) | ((small & 0xfff) << TRACE_ADDRESS_BITS) |
           (address & TRACE_ADDRESS_MASK);
}

/* Called by generated code. */

static VG_REGPARM(1) void on_word(ULong word) {
    if (recording) put(word);
}
static VG_REGPARM(2) void on_address(ULong head, Addr address) {
    if (recording) put(head | (address & TRACE_ADDRESS_MASK));
}
static VG_REGPARM(2) void on_branch(ULong head, ULong taken) {
    if (recording) put(head | ((taken & 1) << TRACE_ADDRESS_BITS));
}
static VG_REGPARM(2) void on_watch(ULong head, ULong second) {
    if (recording) put(head | ((second & 0xfff) << TRACE_ADDRESS_BITS));
}
static VG_REGPARM(1) void on_stack(Addr sp) {
    if (!recording || (sp - last_stack + STACK_STEP) <= 2 * STACK_STEP) return;
    last_stack = sp;
    put(word_of(kTraceStack, 0, sp));
}

/* Instrumentation of one superblock. */

typedef struct {
    IRSB* out;
    Addr run; /* straight-line code not yet written out */
    UInt run_bytes;
    UInt run_instructions;
    Addr here; /* instruction being looked at */
    UInt here_bytes;
} State;

static IRExpr* constant(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

static void call(State* s, const HChar* name, void* function, Int regparms, IRExpr** args,
                 IRExpr* guard) {
    IRDirty* dirty = unsafeIRDirty_0_N(regparms, name, VG_(fnptr_to_fnentry)(function), args);
    if (guard != NULL) dirty->guard = guard;
    addStmtToIRSB(s->out, IRStmt_Dirty(dirty));
}

static void flush_run(State* s) {
    if (s->run_instructions == 0) return;
    ULong word = word_of(kTraceRun, s->run_instructions | (s->run_bytes << 4), s->run);
    call(s, "on_word", &on_word, 1, mkIRExprVec_1(constant(word)), NULL);
    s->run_instructions = 0;
}

static Bool crosses_line(Addr address, UInt bytes) {
    return ((address ^ (address + bytes - 1)) >> LINE_BITS_MIN) != 0;
}

/* An instruction that crosses lines is a run of its own: some count its two misses as one. */
static void add_instruction(State* s, Addr address, UInt bytes) {
    if (s->run_instructions == TRACE_RUN_INSTRUCTIONS_MAX || s->run + s->run_bytes != address ||
        s->run_bytes + bytes > TRACE_RUN_BYTES_MAX || crosses_line(address, bytes) ||
        crosses_line(s->here, s->here_bytes))
        flush_run(s);
    if (s->run_instructions == 0) {
        s->run = address;
        s->run_bytes = 0;
    }
    s->run_bytes += bytes;
    s->run_instructions++;
    s->here = address;
    s->here_bytes = bytes;
}

static void add_data(State* s, ULong kind, IRExpr* address, Int size, IRExpr* guard) {
    if (!option_data) return;
    if (size > 0xfff) size = 0xfff;
    call(s, "on_address", &on_address, 2,
         mkIRExprVec_2(constant(word_of(kind, (ULong)size, 0)), address), guard);
}

/* The guard of a conditional branch says when the superblock is left; if the translator turned
 * the condition round, the way
   out is the next instruction, and leaving means "not taken". */
static void add_branch(State* s, const IRStmt* exit) {
    if (exit->Ist.Exit.jk != Ijk_Boring) return;
    const Bool inverted = exit->Ist.Exit.dst->Ico.U64 == s->here + s->here_bytes;
    IRTemp leaves = newIRTemp(s->out->tyenv, Ity_I64);
    addStmtToIRSB(s->out, IRStmt_WrTmp(leaves, IRExpr_Unop(Iop_1Uto64, exit->Ist.Exit.guard)));
    IRExpr* taken = IRExpr_RdTmp(leaves);
    if (inverted) {
        IRTemp turned = newIRTemp(s->out->tyenv, Ity_I64);
        addStmtToIRSB(s->out, IRStmt_WrTmp(turned, IRExpr_Binop(Iop_Xor64, IRExpr_RdTmp(leaves),
                                                                constant(1))));
        taken = IRExpr_RdTmp(turned);
    }
    call(s, "on_branch", &on_branch, 2,
         mkIRExprVec_2(constant(word_of(kTraceBranch, 0, s->here)), taken), NULL);
}

static void add_end(State* s, IRJumpKind kind, const IRExpr* next) {
    flush_run(s);
    const Bool known = next->tag == Iex_Const;
    ULong word = 0;
    if ((kind == Ijk_Boring || kind == Ijk_Call) && !known) {
        word = word_of(kTraceIndirect, 0, s->here);
        call(s, "on_word", &on_word, 1, mkIRExprVec_1(constant(word)), NULL);
    }
    if (kind == Ijk_Call) word = word_of(kTraceCall, 0, s->here + s->here_bytes);
    else if (kind == Ijk_Ret) word = word_of(kTraceReturn, 0, s->here);
    else return;
    call(s, "on_word", &on_word, 1, mkIRExprVec_1(constant(word)), NULL);
}

static IRExpr* guest_register(State* s, Int offset) {
    IRTemp value = newIRTemp(s->out->tyenv, Ity_I64);
    addStmtToIRSB(s->out, IRStmt_WrTmp(value, IRExpr_Get(offset, Ity_I64)));
    return IRExpr_RdTmp(value);
}

static void add_start(State* s, const VexGuestLayout* layout, Addr address) {
    call(s, "on_stack", &on_stack, 1, mkIRExprVec_1(guest_register(s, layout->offset_SP)), NULL);
    UInt i = 0;
    while (i < watched_count && watched[i] != address) ++i;
    if (i == watched_count) return;
    IRExpr* second = guest_register(s, (Int)offsetof(VexGuestAMD64State, guest_RSI));
    call(s, "on_watch", &on_watch, 2,
         mkIRExprVec_2(constant(word_of(kTraceWatch, 0, address)), second), NULL);
}

static void add_memory(State* s, const IRStmt* st) {
    IRTypeEnv* types = s->out->tyenv;
    switch (st->tag) {
        case Ist_WrTmp:
            if (st->Ist.WrTmp.data->tag == Iex_Load)
                add_data(s, kTraceLoad, st->Ist.WrTmp.data->Iex.Load.addr,
                         sizeofIRType(st->Ist.WrTmp.data->Iex.Load.ty), NULL);
            break;
        case Ist_Store:
            add_data(s, kTraceStore, st->Ist.Store.addr,
                     sizeofIRType(typeOfIRExpr(types, st->Ist.Store.data)), NULL);
            break;
        case Ist_StoreG: {
            const IRStoreG* g = st->Ist.StoreG.details;
            add_data(s, kTraceStore, g->addr, sizeofIRType(typeOfIRExpr(types, g->data)), g->guard);
            break;
        }
        case Ist_LoadG: {
            const IRLoadG* g = st->Ist.LoadG.details;
            IRType wide, narrow;
            typeOfIRLoadGOp(g->cvt, &wide, &narrow);
            add_data(s, kTraceLoad, g->addr, sizeofIRType(narrow), g->guard);
            break;
        }
        case Ist_Dirty: {
            const IRDirty* d = st->Ist.Dirty.details;
            if (d->mFx == Ifx_Read || d->mFx == Ifx_Modify)
                add_data(s, kTraceLoad, d->mAddr, d->mSize, NULL);
            if (d->mFx == Ifx_Write || d->mFx == Ifx_Modify)
                add_data(s, kTraceStore, d->mAddr, d->mSize, NULL);
            break;
        }
        case Ist_CAS: {
            const IRCAS* c = st->Ist.CAS.details;
            Int size = sizeofIRType(typeOfIRExpr(types, c->dataLo)) * (c->dataHi != NULL ? 2 : 1);
            add_data(s, kTraceLoad, c->addr, size, NULL);
            add_data(s, kTraceStore, c->addr, size, NULL);
            break;
        }
        default: break;
    }
}

static IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                        const VexGuestExtents* extents, const VexArchInfo* arch, IRType guest_word,
                        IRType host_word) {
    (void)closure;
    (void)extents;
    (void)arch;
    (void)guest_word;
    (void)host_word;
    if (!instrumenting) return in;
    State s = {deepCopyIRSBExceptStmts(in), 0, 0, 0, 0, 1};
    Bool begun = False;
    for (Int i = 0; i < in->stmts_used; ++i) {
        IRStmt* st = in->stmts[i];
        if (st == NULL || st->tag == Ist_NoOp) continue;
        if (st->tag == Ist_IMark) {
            addStmtToIRSB(s.out, st);
            if (!begun) add_start(&s, layout, st->Ist.IMark.addr);
            begun = True;
            add_instruction(&s, st->Ist.IMark.addr, st->Ist.IMark.len);
            continue;
        }
        if (begun && st->tag == Ist_Exit) {
            flush_run(&s);
            add_branch(&s, st);
        } else if (begun) {
            add_memory(&s, st);
        }
        addStmtToIRSB(s.out, st);
    }
    if (begun) add_end(&s, in->jumpkind, in->next);
    return s.out;
}

/* Start and stop. */

static void set_wanted(ThreadId tid, Bool on) {
    if (on == wanted) return;
    wanted = instrumenting = recording = on;
    recorded = tid;
    last_stack = 0;
    if (!on) write_buffer();
    VG_(discard_translations_safely)((Addr)0x1000, ~(SizeT)0xfff, "lockstep-tracer");
}

static Bool on_request(ThreadId tid, UWord* args, UWord* result) {
    if (!VG_IS_TOOL_USERREQ('L', 'S', args[0])) return False;
    *result = 0;
    switch (args[0]) {
        case kTraceStart: set_wanted(tid, True); break;
        case kTraceStop: set_wanted(tid, False); break;
        case kTraceNote:
            if (!recording) break;
            put(word_of(kTraceStack, 0, VG_(get_SP)(tid)));
            put(word_of(kTraceMark, args[1], args[2]));
            break;
        case kTraceWatchEntry:
            if (watched_count < WATCHED_MAX) watched[watched_count++] = args[1];
            break;
        default: return False;
    }
    return True;
}

static void on_thread_runs(ThreadId tid, ULong blocks) {
    (void)blocks;
    recording = wanted && (tid == recorded || option_from_start);
}

static Bool on_option(const HChar* arg) {
    if VG_STR_CLO (arg, "--trace-file", option_file) {
    } else if VG_BOOL_CLO (arg, "--from-start", option_from_start) {
    } else if VG_BOOL_CLO (arg, "--data", option_data) {
    } else return False;
    return True;
}

static void usage(void) {
    VG_(printf)
    ("    --trace-file=FILE       where the trace goes\n"
     "    --data=yes|no           loads and stores too [yes]\n"
     "    --from-start=yes|no     record the whole program, all threads [no]\n");
}

static void debug_usage(void) { VG_(printf)("    (none)\n"); }

static void after_options(void) {
    if (option_file == NULL) {
        VG_(fmsg)("--trace-file=FILE is missing\n");
        VG_(exit)(1);
    }
    SysRes opened =
        VG_(open)(option_file, VKI_O_CREAT | VKI_O_TRUNC | VKI_O_WRONLY, VKI_S_IRUSR | VKI_S_IWUSR);
    if (sr_isError(opened)) {
        VG_(fmsg)("cannot write %s\n", option_file);
        VG_(exit)(1);
    }
    file = (Int)sr_Res(opened);
    put(TRACE_MAGIC);
    if (option_from_start) wanted = instrumenting = recording = True;
}

static void at_end(Int status) {
    (void)status;
    write_buffer();
    VG_(close)(file);
}

static void before_options(void) {
    VG_(details_name)("lockstep-tracer");
    VG_(details_version)(NULL);
    VG_(details_description)("writes the instruction stream of a region");
    VG_(details_copyright_author)("Lockstep's authors.");
    VG_(details_bug_reports_to)("the project");
    VG_(details_avg_translation_sizeB)(400);
    VG_(basic_tool_funcs)(after_options, instrument, at_end);
    VG_(needs_command_line_options)(on_option, usage, debug_usage);
    VG_(needs_client_requests)(on_request);
    VG_(track_start_client_code)(on_thread_runs);
    VG_(clo_vex_control).guest_chase =
        False; /* so that a function's entry begins a superblock, and nothing runs ahead of it */
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
