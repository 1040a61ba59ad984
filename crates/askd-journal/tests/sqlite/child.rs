//! A test that runs in a process of its own: the same binary again, told which test and which place by its environment.

use std::path::{Path, PathBuf};
use std::process::Command;

const PLACE: &str = "ASKD_JOURNAL_TEST_PLACE";

/// The test `name` (with its module) as a child process on the journal `path`.
pub(crate) fn child(name: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(PLACE, path);
    command
}

/// The journal's path when this process is the child; `None` in the ordinary run, where the test has nothing to do.
pub(crate) fn as_child() -> Option<PathBuf> {
    std::env::var_os(PLACE).map(PathBuf::from)
}
