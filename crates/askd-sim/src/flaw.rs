//! Deliberate flaws around the core. Only tests build a flawed world, to show that the simulation finds each of them.

/// One flaw of a journal, a shell or an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests build flawed worlds"))]
pub(crate) enum Flaw {
    /// The journal acknowledges a commit that it did not keep.
    KeepsNothing,
    /// The journal does not compare versions.
    Overwrites,
    /// After a lost acknowledgement the journal claims that everything was written.
    GuessesWritten,
    /// The journal does not tell of one open ask at the start.
    ForgetsHeads,
    /// The shell replies before the batch is committed.
    RepliesEarly,
    /// The shell gives an outcome to whoever waits, not to whoever asked.
    WrongRequester,
    /// The shell sends an allow although a cancel voided it.
    SendsVoided,
    /// The shell does not tell a requester what was decided.
    ForgetsWaiter,
    /// The hook takes a lost connection for an allow.
    InventsAllow,
    /// The hook takes a lost connection for a deny.
    InventsDeny,
    /// The shell applies deadlines right after a wake.
    ForgetsWake,
    /// The queue's program says that a frame is on the screen before it hands in what was typed until then.
    ShowsEarly,
    /// The queue's program tells the time of its keys half a second fast.
    FastKeys,
}
