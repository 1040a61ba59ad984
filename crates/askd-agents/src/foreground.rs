//! Whether a signal that a keyboard can send came from there.

use std::fs::File;

use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

/// An interrupt that comes while this process is in the foreground of its terminal: the terminal has sent it to every
/// process of the group, so also to a child in the same group, and it must not be handed on.
pub fn terminal_has_sent_it() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
}
