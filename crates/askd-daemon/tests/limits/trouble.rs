//! A full disk, and a journal with many old asks: the real daemon on real files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{World, ask, post, raise, refusal};
use askd_core::ask::{Action, Class, RequesterKind};
use askd_core::{AskId, BootId, Cause, Command as Do, Hash256, LinkId, Now, Raise, SessionKey, Settings};
use askd_journal::{OpenOptions, Reader as _, SqliteJournal};
use askd_wire::{OutcomeKind, RegisterSurface, Scope, StreamEvent, SurfaceKind};
use askd_writer::{Ids, Writer};
use serde_json::{Value, json};
use uuid::Uuid;

/// A file system of its own, as small as wanted.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where this user may not mount.
    fn mount(place: &Path, bytes: u64) -> Option<Self> {
        fs::create_dir_all(place).unwrap();
        let options = format!("size={bytes},mode=700");
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "askd-test"]).arg(place).output();
        done.is_ok_and(|done| done.status.success()).then(|| Self(place.to_path_buf()))
    }

    /// Fills what is left; the disk is full until the file is removed.
    fn hog(&self) -> PathBuf {
        use std::io::Write as _;
        let hog = self.0.join("hog");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&hog).unwrap();
        let error = (0..).map(|_| file.write_all(&[0; 4096])).find_map(Result::err).unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        hog
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// How often the writer threads of this process went to sleep so far.
fn rests_of_writers() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path());
    let writers =
        tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "writer\n"));
    writers
        .filter_map(|task| fs::read_to_string(task.join("status")).ok())
        .filter_map(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        })
        .sum()
}

#[test]
fn c1_a_disk_that_has_room_again_is_noticed_although_nothing_happens() {
    let mut world = World::unstarted("");
    let Some(disk) = SmallDisk::mount(world.places.state_dir(), 8 << 20) else { return };
    world.up();
    let mut events = world.person().events(None, None).unwrap();
    events.receive().unwrap();
    let mut notice = |part: &str| loop {
        if let StreamEvent::Notice { text } = events.receive().unwrap().unwrap().event {
            assert!(text.contains(part), "{text}");
            break;
        }
    };
    let hog = disk.hog();
    let mut tries = 0;
    world.until("a full disk", || {
        tries += 1;
        let body = ask(&format!("late {tries}"), &"x".repeat(10_000));
        (post(&mut world.requester(), "/v1/asks", &body).status == 503).then_some(())
    });
    notice("nothing can be recorded");
    assert!(!world.person().health().unwrap().ok);
    fs::remove_file(hog).unwrap();
    notice("records again");
    assert!(world.person().health().unwrap().ok);
}

#[test]
fn c1_what_happened_while_the_disk_was_full_is_taken_up_by_itself_and_no_timer_spins() {
    let mut world = World::unstarted("");
    let Some(disk) = SmallDisk::mount(world.places.state_dir(), 8 << 20) else { return };
    world.up();
    let mut person = world.person();
    let surface = person
        .register(&RegisterSurface {
            name: "test".to_owned(),
            kind: SurfaceKind::Direct,
            scope: Scope::All,
            capacity: None,
        })
        .unwrap();
    let mut events = world.person().events(Some(&surface.surface), None).unwrap();
    events.receive().unwrap();

    let of_hook = |key: &str| {
        let mut body = ask(key, key);
        body["requester"] = json!("hook");
        body["grace_secs"] = json!(0);
        body
    };
    let mut hook = world.requester();
    let left = raise(&mut hook, &of_hook("left"));
    let mut agent = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut others = world.requester();
    let mut body = ask("dies", "dies");
    body["session"] = json!("s2");
    body["instance"] = json!({"pid": agent.id()});
    let dies = raise(&mut others, &body);
    assert!(dies.lineage.instance.is_some());
    let mut body = of_hook("blocked");
    body["own_prompt"] = json!({"where": "terminal", "blocked": true});
    body["subagent"] = json!({"work_id": "w1"});
    let blocked = raise(&mut others, &body);
    let mut body = ask("due", "due");
    body["attendance"] = json!("background");
    body["deadline_secs"] = json!(1);
    let due = raise(&mut others, &body);

    let hog = disk.hog();
    let mut late = world.requester();
    let mut tries = 0;
    let refused = world.until("a full disk", || {
        tries += 1;
        let reply = post(&mut late, "/v1/asks", &ask(&format!("late {tries}"), &"x".repeat(10_000)));
        (reply.status != 201).then_some(reply)
    });
    assert_eq!(refusal(&refused), (503, "not_recorded".to_owned()));
    // Whoever looks hears of it, and whoever looks on.
    let health = world.person().health().unwrap();
    assert!(!health.ok && health.not_recorded.as_ref().unwrap().contains("full"), "{health:?}");
    assert!(health.warnings()[0].contains("nothing can be recorded"), "{health:?}");
    let mut notice = |part: &str| loop {
        if let StreamEvent::Notice { text } = events.receive().unwrap().unwrap().event {
            assert!(text.contains(part), "{text}");
            break;
        }
    };
    notice("nothing can be recorded");
    drop(hook);
    drop(events);
    agent.kill().unwrap();
    agent.wait().unwrap();
    // Over several of its attempts.
    let before = rests_of_writers();
    std::thread::sleep(Duration::from_secs(3));
    let rests = rests_of_writers() - before;
    assert!(rests < 300, "{rests} times awake in 3 s");
    for ask in [&left, &dies, &due] {
        assert!(person.show(&ask.id).unwrap().outcome.is_none(), "nothing is told that is not written down");
    }

    // Nobody says anything any more; this connection only looks.
    fs::remove_file(hog).unwrap();
    world.until("it records again", || {
        let health = world.person().health().unwrap();
        (health.ok && health.not_recorded.is_none()).then_some(())
    });
    let mut outcome = |id: &str| world.until("an outcome", || person.show(id).unwrap().outcome);
    let settled = outcome(&due.id);
    assert_eq!((settled.outcome, settled.cause.as_str()), (OutcomeKind::Denied, "timed"));
    for ask in [&left, &dies] {
        let outcome = outcome(&ask.id);
        assert_eq!((outcome.outcome, outcome.cause.as_str()), (OutcomeKind::Withdrawn, "requester_gone"));
    }
    world.until("the hand-back", || {
        (person.show(&blocked.id).unwrap().requester.link == "handed_back").then_some(())
    });
    drop((late, others, person));
    world.leave("restart");
    drop(disk);
}

struct Counted(u128);

impl Ids for Counted {
    fn next(&mut self) -> Uuid {
        self.0 += 1;
        Uuid::from_u128(self.0)
    }
}

fn old(number: u64) -> Raise {
    Raise {
        id: AskId(Uuid::from_u128(u128::from(number) + 1)),
        key: format!("old-{number}"),
        token: Hash256::of(b"token"),
        link: LinkId(number),
        kind: RequesterKind::Script,
        action: Action {
            tool: "Bash".to_owned(),
            kind: None,
            title: None,
            input: Some(format!("{{\"command\":\"old {number}\"}}")),
            cwd: None,
        },
        class: Class::Tool,
        attendance: None,
        session: SessionKey { agent: "script".to_owned(), session: "old".to_owned() },
        parent: None,
        root: None,
        subagent: None,
        job: None,
        call: None,
        turn: None,
        title: None,
        options: Vec::new(),
        deadline_ms: None,
        gives_up_ms: None,
        grace_ms: 0,
        instance: None,
        owner: None,
        own_prompt: None,
        needs_own_prompt: false,
        supersedes: None,
        place: None,
        extra: serde_json::Map::new(),
    }
}

#[test]
fn what_is_past_the_retention_time_goes_in_slices_and_the_rest_stays() {
    // More than two slices.
    const OLD: u64 = 2_300;
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let mut world = World::unstarted("[journal]\nretention_days = 7\n");
    let path = world.places.state_dir().join("journal.sqlite");
    askd_client::make_private_directory(world.places.state_dir()).unwrap();
    let today = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let at = |days: i64| Now { boot: BootId(Uuid::nil()), boot_ms: 1, wall_ms: today - days * DAY_MS };
    let journal = SqliteJournal::open(&path, OpenOptions::default()).unwrap();
    let first = Settings::default();
    let mut writer = Writer::open(journal, first, Box::new(Counted(1 << 100)), Box::new(()), at(30)).unwrap();
    let mut write = |numbers: std::ops::Range<u64>, days: i64| {
        let raises: Vec<_> = numbers.map(old).collect();
        let asked: Vec<_> = raises.iter().cloned().map(|raise| Do::Raise(Box::new(raise))).collect();
        let over: Vec<_> = raises
            .iter()
            .map(|raise| Do::Withdraw { ask: raise.id, token: raise.token, cause: Cause::Cancelled })
            .collect();
        for commands in [asked, over] {
            let batched = writer.run(&commands, at(days)).unwrap();
            assert!(batched.replies.iter().all(Result::is_ok));
        }
    };
    for from in (0..OLD).step_by(100) {
        write(from..from + 100, 30);
    }
    write(OLD..OLD + 5, 2);
    let entries = writer.journal().last().unwrap();
    assert!(entries > 2 * OLD);
    writer.flush().unwrap();
    drop(writer);

    world.up();
    let inputs = || -> Vec<String> {
        let asks = world.person().list(true).unwrap();
        asks.iter().map(|ask| ask.action.input.as_ref().unwrap().get().to_owned()).collect()
    };
    let left = world.until("the old ones to be gone", || Some(inputs()).filter(|asks| asks.len() == 5));
    let expected: Vec<_> =
        (OLD..OLD + 5).map(|n| json!({"command": format!("old {n}")}).to_string()).collect();
    assert_eq!(left, expected);
    let log: Vec<Value> = world.person().get("/v1/log").unwrap();
    assert_eq!(log.iter().filter(|entry| entry["what"] == "withdrawn").count(), 5);
    world.leave("restart");
    let journal = SqliteJournal::open(&path, OpenOptions::default()).unwrap();
    let entries = journal.feed(0, usize::MAX).unwrap();
    let asks = entries.iter().filter(|entry| entry.stream.to_string().starts_with("ask/"));
    assert_eq!(asks.count(), 10);
}
