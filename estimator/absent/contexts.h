// What a process has of a card before it asks for memory there: contexts.  The runtime makes one of
// each card, the primary one, as its first function is called that works on the card; the driver is
// told to make it, and may make more.
#pragma once

#include "estimator/absent/card.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {

struct Context {
  int device = 0;
  char rest[508] = {};  // programs may look into what a handle points to
};

// The card that this thread works on: that of its current context, else the one that it has chosen.
int CurrentDevice();

inline const AbsentCard& CurrentCard() {
  return Machine().cards[static_cast<size_t>(CurrentDevice())];
}

// cudaSetDevice: the thread works with the card's primary context from now on, which is not made.
void ChooseDevice(int device);

// A context on the card, the primary one where there is none.  False where it has no room for it.
bool EnsureContext(int device);
bool HasContext(int device);  // the primary one

// As functions of the runtime begin: with the primary context of the thread's card, made if need
// be.
Status EnterContext();

Context* PrimaryContext(int device);

// What the driver is told.  A primary context goes with the last who retained it, or by a reset;
// any other when it is destroyed; and with the last of a card what was allocated there.
Status RetainPrimary(int device);
Status ReleasePrimary(int device);
void ResetPrimary(int device);
Status CreateContext(int device, Context** context);
Status DestroyContext(Context* context);

// Of this thread.  Null is none.
Context* CurrentContext();
void PushContext(Context* context);
Context* PopContext();

}  // namespace onnxfit::absent
