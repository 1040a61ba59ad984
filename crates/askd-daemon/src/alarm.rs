//! Timers on a clock that counts suspend: a deadline that passed while the lid was closed fires on wake, and nothing
//! wakes up while nothing is due.

use askd_core::Command;
use tokio::sync::watch;

use crate::clock;
use crate::engine::Engine;
use crate::http::Leave;
use crate::publish::{Hub, What};

/// More time asleep than this between two alarms is a wake.
const WAKE_MS: u64 = 1000;

/// Lets the alarm run; when it fails, the daemon leaves as for a restart.
pub(crate) async fn keep(
    alarm: impl Future<Output = std::io::Result<()>>,
    leave: watch::Sender<Option<Leave>>,
) {
    if let Err(error) = alarm.await {
        // Without timers deadlines would be missed in silence; the next daemon has them again.
        tracing::error!("the timer failed: {error}");
        leave.send_replace(Some(Leave::Restart));
    }
}

/// Sends [`Command::Tick`] whenever the core wants one.
pub(crate) async fn ring(engine: Engine, hub: Hub, due: watch::Receiver<Option<u64>>) -> std::io::Result<()> {
    ring_with(timer::Timer::new()?, engine, hub, due).await
}

async fn ring_with(
    timer: timer::Timer,
    engine: Engine,
    hub: Hub,
    mut due: watch::Receiver<Option<u64>>,
) -> std::io::Result<()> {
    let mut asleep = clock::suspended_ms();
    loop {
        timer.set(*due.borrow_and_update())?;
        tokio::select! {
            changed = due.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
            }
            rung = timer.rung() => {
                rung?;
                let now_asleep = clock::suspended_ms();
                if now_asleep.saturating_sub(asleep) > WAKE_MS {
                    engine.run(Command::Woke).await;
                    // After the hold began: what a surface says it fetched was fetched since.
                    hub.send(What::Woke);
                }
                asleep = now_asleep;
                // Its reply means that the next alarm is set.
                engine.run(Command::Tick).await;
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod timer {
    use std::os::fd::OwnedFd;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    pub(super) struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
        pub(super) fn new() -> std::io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let fd = timerfd_create(TimerfdClockId::Boottime, flags)?;
            Self::over(fd)
        }

        pub(super) fn over(fd: OwnedFd) -> std::io::Result<Self> {
            Ok(Self(crate::fd::readable(fd)?))
        }

        pub(super) fn set(&self, ms: Option<u64>) -> std::io::Result<()> {
            // A value of zero would switch the timer off.
            let ms = ms.map_or(0, |ms| ms.max(1));
            let value = Timespec {
                tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
            };
            let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &spec)?;
            Ok(())
        }

        pub(super) async fn rung(&self) -> std::io::Result<()> {
            loop {
                let mut ready = self.0.readable().await?;
                let mut count = [0; 8];
                match ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut count)?)) {
                    Ok(read) => return read.map(drop),
                    Err(_would_block) => {}
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod timer {
    use std::sync::Mutex;
    use std::time::Duration;

    use tokio::time::Instant;

    // Elsewhere the sleep may stand still during suspend; looking at least this often bounds how late it is.
    const LONGEST: Duration = Duration::from_secs(30);

    pub(super) struct Timer(Mutex<Option<Instant>>);

    impl Timer {
        pub(super) fn new() -> std::io::Result<Self> {
            Ok(Self(Mutex::new(None)))
        }

        pub(super) fn set(&self, ms: Option<u64>) -> std::io::Result<()> {
            let at = ms.map(|ms| Instant::now() + Duration::from_millis(ms.max(1)).min(LONGEST));
            if let Ok(mut slot) = self.0.lock() {
                *slot = at;
            }
            Ok(())
        }

        pub(super) async fn rung(&self) -> std::io::Result<()> {
            let at = self.0.lock().ok().and_then(|slot| *slot);
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
            Ok(())
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_timer_that_fails_makes_the_daemon_leave_as_for_a_restart() {
        // A descriptor that is no timer: setting it is refused by the system.
        let (end, _other) = rustix::pipe::pipe().unwrap();
        let (_due, due) = watch::channel(Some(5));
        let (leave, left) = watch::channel(None);
        let alarm = ring_with(timer::Timer::over(end).unwrap(), Engine::of_nobody(), Hub::new(), due);
        keep(alarm, leave).await;
        assert_eq!(*left.borrow(), Some(Leave::Restart));
    }

    #[tokio::test]
    async fn an_alarm_that_ends_with_the_daemon_is_no_failure() {
        let (due_sender, due) = watch::channel(None);
        let (leave, left) = watch::channel(None);
        drop(due_sender);
        keep(ring(Engine::of_nobody(), Hub::new(), due), leave).await;
        assert_eq!(*left.borrow(), None);
    }
}
