//! Watches agent processes, so that the asks of one that died do not stay open.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use askd_core::{Command, Instance};
use tokio::sync::mpsc;

use crate::engine::Engine;
use crate::peer;

/// How often a process is looked at that the kernel does not tell of.
const LOOK: Duration = Duration::from_secs(2);
/// Processes that the kernel is to tell of at most: each takes a descriptor, which requesters need too.
#[cfg(target_os = "linux")]
const MOST_HELD: usize = 32;

/// Follows every agent process of this host that the core names, and says when it has ended.
pub(crate) async fn watch(engine: Engine, host: String, mut found: mpsc::UnboundedReceiver<Instance>) {
    // The core names a process anew whenever its next session begins.
    let watched: Arc<Mutex<BTreeSet<Instance>>> = Arc::default();
    while let Some(instance) = found.recv().await {
        if instance.host != host || !all(&watched).insert(instance.clone()) {
            continue;
        }
        let (engine, watched) = (engine.clone(), Arc::clone(&watched));
        tokio::spawn(async move {
            ended(&instance).await;
            // Before it is told: whoever names it afterwards is watched again.
            all(&watched).remove(&instance);
            engine.tell(Command::AgentGone { instance });
        });
    }
}

fn all(watched: &Mutex<BTreeSet<Instance>>) -> std::sync::MutexGuard<'_, BTreeSet<Instance>> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns when the process has ended, at once when it has already or its number is another's now. That it cannot be
/// watched is no sign of an end.
async fn ended(instance: &Instance) {
    #[cfg(target_os = "linux")]
    if kernel::tells_of_end(instance, kernel::open).await {
        return;
    }
    while !peer::is_gone(instance.pid, instance.start) {
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::os::fd::OwnedFd;
    use std::sync::Once;

    use askd_core::Instance;
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use tokio::sync::Semaphore;

    use super::{LOOK, MOST_HELD, peer};

    static HELD: Semaphore = Semaphore::const_new(MOST_HELD);
    static SAID: Once = Once::new();

    pub(super) fn open(pid: Pid) -> Result<OwnedFd, Errno> {
        pidfd_open(pid, PidfdFlags::NONBLOCK)
    }

    /// True: the process has ended. False: the kernel does not say, so it has to be looked at.
    pub(super) async fn tells_of_end(
        instance: &Instance,
        open: impl Fn(Pid) -> Result<OwnedFd, Errno>,
    ) -> bool {
        let Some(pid) = i32::try_from(instance.pid).ok().and_then(Pid::from_raw) else { return false };
        let Ok(_place) = HELD.try_acquire() else { return false };
        let why = match open(pid) {
            Err(Errno::SRCH) => return true,
            Err(error) => error.into(),
            Ok(fd) => match crate::fd::readable(fd) {
                Err(error) => error,
                // Looked at after the descriptor is held: it is this process or none.
                Ok(_) if peer::is_gone(instance.pid, instance.start) => return true,
                Ok(fd) => match fd.readable().await {
                    Ok(_) => return true,
                    Err(error) => error,
                },
            },
        };
        SAID.call_once(|| {
            tracing::warn!(
                "the kernel does not tell when an agent's process ends ({why}); it is looked for every {} s",
                LOOK.as_secs()
            );
        });
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Stdio;

    use rustix::io::Errno;

    use super::*;

    #[tokio::test]
    async fn s7_a_live_process_that_cannot_be_watched_has_not_ended() {
        let mut child = std::process::Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let start = peer::start_of(child.id()).unwrap();
        let live = Instance { host: "h".to_owned(), pid: child.id(), start };
        // An older kernel, a filter of a container, no descriptor left.
        for errno in [Errno::NOSYS, Errno::PERM, Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
            assert!(!kernel::tells_of_end(&live, |_| Err(errno)).await, "{errno}");
            assert!(!peer::is_gone(live.pid, live.start));
        }
        assert!(kernel::tells_of_end(&live, |_| Err(Errno::SRCH)).await);
        // It is dead before anybody waited for it.
        child.kill().unwrap();
        tokio::time::timeout(Duration::from_secs(60), async {
            while !peer::is_gone(live.pid, live.start) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap();
        ended(&live).await;
        child.wait().unwrap();
        ended(&live).await;
        // Another process with its number.
        let me = std::process::id();
        ended(&Instance { host: "h".to_owned(), pid: me, start: 1 }).await;
    }

    #[tokio::test]
    async fn s7_the_end_of_a_process_is_seen_with_the_kernels_help_and_without() {
        for open in [kernel::open as fn(_) -> _, |_| Err(Errno::NOSYS)] {
            let mut child = std::process::Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let start = peer::start_of(child.id()).unwrap();
            let live = Instance { host: "h".to_owned(), pid: child.id(), start };
            let watch = tokio::spawn(async move { kernel::tells_of_end(&live, open).await });
            drop(child.stdin.take());
            tokio::task::yield_now().await;
            let told = tokio::time::timeout(Duration::from_secs(60), watch).await.unwrap().unwrap();
            assert_eq!(told, open(rustix::process::getpid()).is_ok());
            child.wait().unwrap();
        }
    }
}
