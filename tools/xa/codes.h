// codes.h - errors of the engine as codes of XA.
#pragma once

#include "tools/xa/lockstep_xa.h"

namespace lockstep::xa {

// Why a branch was rolled back, or can only be rolled back.
inline int rollback_code(int code) {
    switch (code) {
        case LOCKSTEP_DEADLOCK:
        case LOCKSTEP_SELF_DEADLOCK: return XA_RBDEADLOCK;
        case LOCKSTEP_LOCK_TIMEOUT:
        case LOCKSTEP_TIMEOUT:
        case LOCKSTEP_TRANSACTION_TOO_OLD: return XA_RBTIMEOUT;
        case LOCKSTEP_TOO_MANY:
        case LOCKSTEP_NO_SPACE:
        case LOCKSTEP_LOG_FULL: return XA_RBTRANSIENT;
        case LOCKSTEP_TXN_ENDED: return XA_RBPROTO;
        case LOCKSTEP_UNSUPPORTED:
        case LOCKSTEP_ALREADY_EXISTS: return XA_RBOTHER;
        default: return XA_RBROLLBACK;
    }
}

// Whether the store can do nothing more in this process.
inline bool unavailable(int code) {
    return code == LOCKSTEP_STORE_FAILED || code == LOCKSTEP_STORE_CLOSED ||
           code == LOCKSTEP_FORKED;
}
inline int error_code(int code) { return unavailable(code) ? XAER_RMFAIL : XAER_RMERR; }

}  // namespace lockstep::xa
