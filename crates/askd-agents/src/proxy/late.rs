//! What is still to be told of asks whose threads have ended: they are many in a long session, and few have more to
//! tell than that their outcome was handed on.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use askd_client::{Asker, Places, Unavailable};

use super::asks::Order;
use super::link::{Busy, BusyGuard};
use super::{AskNo, lock, spawn};

/// Finished asks that are remembered; more is told only of the newest.
const MOST_OVER: usize = 1000;
/// Between two attempts to tell the daemon something.
const PAUSE: Duration = Duration::from_secs(1);
/// How long one thing is tried to be told.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks whose threads have ended, and one thread for all of them.
#[derive(Debug)]
pub(super) struct Late {
    over: Mutex<Over>,
    told: Mutex<Sender<Told>>,
    busy: Busy,
}

#[derive(Debug, Default)]
struct Over {
    /// askd's id, where it is known.
    ids: BTreeMap<AskNo, Option<String>>,
    /// Those that nobody has been told of.
    new: Vec<AskNo>,
}

#[derive(Debug)]
struct Told {
    id: String,
    what: What,
    _busy: BusyGuard,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Handed,
    Confirmed,
    Withdraw(&'static str),
}

impl Late {
    pub(super) fn start(
        places: Places,
        exe: Option<PathBuf>,
        token: String,
        busy: Busy,
    ) -> io::Result<Arc<Self>> {
        let (told, received) = channel();
        spawn("late", move || tell_all(&places, exe.as_ref(), &token, &received))?;
        Ok(Arc::new(Self { over: Mutex::default(), told: Mutex::new(told), busy }))
    }

    /// A thread has ended. Orders that it was given before are still its own.
    pub(super) fn over(&self, no: AskNo, id: Option<String>) {
        let mut over = lock(&self.over);
        over.ids.insert(no, id);
        over.new.push(no);
        if over.ids.len() > MOST_OVER {
            over.ids.pop_first();
        }
    }

    /// Those that ended since the last call.
    pub(super) fn newly_over(&self) -> Vec<AskNo> {
        std::mem::take(&mut lock(&self.over).new)
    }

    /// Gives an order to an ask's thread by `send`, or does what is left of it after that has ended.
    pub(super) fn order(&self, no: AskNo, order: Order, send: impl FnOnce(Order)) {
        // Held until it is sent, so that a thread that ends meanwhile finds it.
        let over = lock(&self.over);
        let Some(id) = over.ids.get(&no).cloned() else { return send(order) };
        drop(over);
        let what = match order {
            Order::Handed => What::Handed,
            Order::Confirmed => What::Confirmed,
            Order::Withdraw(cause) => What::Withdraw(cause),
            // An ask that has an outcome, or was taken back, has its record.
            Order::Record { .. } => return,
        };
        if let Some(id) = id {
            let _ = lock(&self.told).send(Told { id, what, _busy: self.busy.enter() });
        }
    }
}

fn tell_all(places: &Places, exe: Option<&PathBuf>, token: &str, told: &Receiver<Told>) {
    for Told { id, what, _busy } in told {
        let until = Instant::now() + PATIENCE;
        while let Err(why) = tell(places, exe, token, &id, what) {
            if why.is_final_refusal() || Instant::now() >= until {
                break;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn tell(
    places: &Places,
    exe: Option<&PathBuf>,
    token: &str,
    id: &str,
    what: What,
) -> Result<(), Unavailable> {
    // A connection for each: there are few, and one that waits costs the daemon and us.
    let mut asker = Asker::new(places.clone(), exe.cloned())?.with_token(token.to_owned());
    match what {
        What::Handed => asker.handed(id),
        What::Confirmed => asker.confirmed(id),
        What::Withdraw(cause) => asker.withdraw(id, cause),
    }
}
