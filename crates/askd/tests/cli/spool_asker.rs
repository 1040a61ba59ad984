//! A host that has only a file system in common with askd asks through the library.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use askd_client::spool::SpoolAsker;
use askd_wire::SpoolOutcome;
use rustix::process::Signal;
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::world::{Running, World};

fn serve(world: &World, dir: &str) -> Running {
    let mut server = world.spawn(&["spool", "--dir", dir]);
    server.line("serving");
    server
}

#[test]
fn f15_asks_through_the_library_survive_removals_and_a_killed_server() {
    let world = World::new();
    world.start();
    let root = world.path("tree");
    let dir = root.to_str().unwrap();
    let asker = SpoolAsker::new(&root, "a host/1").unwrap().unserved_after(Duration::from_secs(60));
    let first = serve(&world, dir);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Somebody tidies up, as thoroughly as one can.
        scope.spawn(|| {
            let session = root.join("sessions/a%20host%2F1");
            for turn in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let victims =
                    [session.join("responses"), session.clone(), root.join("sessions"), root.clone()];
                let _ = fs::remove_dir_all(&victims[turn % victims.len()]);
                thread::sleep(Duration::from_millis(50));
            }
        });
        let asking: Vec<_> = (0..6)
            .map(|number| {
                let asker = asker.clone();
                scope.spawn(move || {
                    let mut request = asker.request("Bash").unwrap();
                    request.input = to_raw_value(&json!({"command": format!("step {number}")})).ok();
                    asker.ask(&request)
                })
            })
            .collect();
        for number in 0..6 {
            world.open(&format!("step {number}"));
        }
        first.signal(Signal::KILL);
        drop(first);
        let second = serve(&world, dir);
        for number in 0..6 {
            let handle = world.handle(&format!("step {number}"));
            if number % 2 == 0 {
                world.must(&["allow", &handle]);
            } else {
                world.must(&["deny", &handle, "-m", &format!("no to {number}")]);
            }
        }
        for (number, asked) in asking.into_iter().enumerate() {
            let answer = asked.join().unwrap().unwrap();
            let expected = if number % 2 == 0 { SpoolOutcome::Allowed } else { SpoolOutcome::Denied };
            assert_eq!((answer.outcome, answer.cause.as_str()), (expected, "person"), "step {number}");
            assert_eq!(answer.message, (number % 2 == 1).then(|| format!("no to {number}")));
        }
        stop.store(true, Ordering::Relaxed);
        drop(second);
    });
    let asks = world.json(&["ls", "--all", "--json"]);
    assert_eq!(asks.as_array().unwrap().len(), 6, "nobody was asked twice: {asks:#}");
}
