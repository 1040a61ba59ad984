//! Watches agent processes, so that the asks of one that died do not stay open.

use askd_core::{Command, Instance};
use tokio::sync::mpsc;

use crate::engine::Engine;
use crate::peer;

/// Follows every agent process of this host that the core names, and says when it has ended.
pub(crate) async fn watch(engine: Engine, host: String, mut found: mpsc::UnboundedReceiver<Instance>) {
    while let Some(instance) = found.recv().await {
        if instance.host != host {
            continue;
        }
        let engine = engine.clone();
        tokio::spawn(async move {
            ended(&instance).await;
            engine.tell(Command::AgentGone { instance });
        });
    }
}

/// Returns when the process has ended, at once when it has already or its number is another's now.
async fn ended(instance: &Instance) {
    let same =
        || peer::start_of(instance.pid).is_some_and(|start| instance.start == 0 || start == instance.start);
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};

        let pid = i32::try_from(instance.pid).ok().and_then(Pid::from_raw);
        let watched = pid
            .and_then(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK).ok())
            .and_then(|fd| crate::fd::readable(fd).ok());
        // Looked at after the descriptor is held: it is this process or none.
        if let Some(fd) = watched.filter(|_| same()) {
            let _ = fd.readable().await;
        }
    }
    #[cfg(not(target_os = "linux"))]
    while same() {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    }
}
