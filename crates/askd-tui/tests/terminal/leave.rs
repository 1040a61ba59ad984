//! What was answered last is not lost with the queue.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc;

use askd_wire::OutcomeKind;
use rustix::process::Signal;

use crate::pty::{Pty, QUEUE, child_of, signal};
use crate::world::World;

/// Stands before the daemon's answers and lets nothing through until it is told to.
struct Gate {
    real: PathBuf,
    door: PathBuf,
    open: mpsc::Sender<()>,
}

impl Gate {
    fn before(world: &World) -> Self {
        let door = world.places.answer_sock();
        let real = door.with_extension("real");
        std::fs::rename(&door, &real).unwrap();
        let listener = UnixListener::bind(&door).unwrap();
        std::fs::set_permissions(&door, std::fs::Permissions::from_mode(0o600)).unwrap();
        let (open, opened) = mpsc::channel();
        let behind = real.clone();
        std::thread::spawn(move || {
            let mut held: Vec<UnixStream> = Vec::new();
            let mut is_open = false;
            listener.set_nonblocking(true).unwrap();
            loop {
                if let Ok((stream, _)) = listener.accept() {
                    held.push(stream);
                }
                match opened.try_recv() {
                    Ok(()) => is_open = true,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                    Err(mpsc::TryRecvError::Empty) => std::thread::sleep(std::time::Duration::from_millis(5)),
                }
                for stream in if is_open { std::mem::take(&mut held) } else { Vec::new() } {
                    pass(&stream, &UnixStream::connect(&behind).unwrap());
                }
            }
        });
        Self { real, door, open }
    }

    fn opens(&self) {
        self.open.send(()).unwrap();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        std::fs::rename(&self.real, &self.door).unwrap();
    }
}

fn pass(one: &UnixStream, other: &UnixStream) {
    for (from, to) in [(one, other), (other, one)] {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || copy(from, to));
    }
}

fn copy(mut from: UnixStream, mut to: UnixStream) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// The queue, and a shell behind it that tells its status.
fn queue(world: &World) -> (Pty, u32) {
    let script = format!("{QUEUE}; echo \"status $?\"");
    let pty = Pty::run(world, 100, 30, &["sh", "-c", &script], &[]);
    let queue = child_of(pty.pid(), QUEUE);
    (pty, queue)
}

fn plain_screen(pty: &Pty) {
    pty.wait("the plain screen", |screen| (!screen.alternate_screen()).then_some(()));
}

#[test]
fn an_answer_and_the_leaving_key_in_one_go_are_both_done() {
    let mut world = World::start();
    for n in 0..6 {
        let ask = world.ask(&format!("echo {n}"));
        let (mut pty, _) = queue(&world);
        pty.focuses(&ask.handle);
        pty.keys("nq");
        pty.sees("status 0");
        pty.sees("denied by you in the terminal");
        pty.sees("left; no ask is open");
        assert_eq!(world.decided(&ask), OutcomeKind::Denied);
    }
}

#[test]
fn whatever_ends_the_queue_waits_for_a_slow_daemon_to_take_the_answers() {
    for (keys, being, how) in
        [("n", 1, None), ("n", 1, Some(Signal::HUP)), ("n", 1, Some(Signal::TERM)), ("dy", 2, None)]
    {
        let mut world = World::start();
        let asks = [world.background("echo one"), world.background("echo two")];
        let (mut pty, pid) = queue(&world);
        pty.focuses(&asks[0].handle);
        pty.sees("echo two");
        let gate = Gate::before(&world);
        for (at, key) in keys.chars().enumerate() {
            if at > 0 {
                pty.sees("deny 2? y");
            }
            pty.keys(&key.to_string());
        }
        pty.sees(&format!("{being} being answered"));
        match how {
            None => pty.keys("q"),
            Some(number) => signal(pid, number),
        }
        plain_screen(&pty);
        gate.opens();
        pty.sees("status 0");
        pty.sees("denied by you in the terminal");
        drop(gate);
        for ask in &asks[..being] {
            assert_eq!(world.decided(ask), OutcomeKind::Denied, "{keys} {how:?}");
        }
    }
}

#[test]
fn an_answer_without_a_reply_is_told_when_the_person_leaves() {
    let mut world = World::start();
    let (first, second) = (world.ask("echo one"), world.ask("echo two"));
    let (mut pty, _) = queue(&world);
    pty.focuses(&first.handle);
    let gate = Gate::before(&world);
    pty.keys("n");
    pty.sees("1 being answered");
    pty.keys("q");
    plain_screen(&pty);
    pty.sees(&format!("waiting for the daemon to take your deny of {}", first.handle));
    pty.sees(&format!("your deny of {} may not have arrived: the daemon did not reply", first.handle));
    pty.sees("left; 2 asks stay open");
    pty.sees("status 1");
    drop(gate);
    assert!(world.is_open(&first) && world.is_open(&second));
}
