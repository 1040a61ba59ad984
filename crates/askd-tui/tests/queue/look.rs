//! What it looks like, at three sizes.

use askd_tui::Key;
use askd_wire::{Ask, Class};
use serde_json::json;

use crate::rig::Rig;
use crate::{samples, stream};

const SIZES: [(u16, u16); 3] = [(60, 15), (100, 30), (200, 50)];

fn at_every_size(name: &str, make: impl Fn(u16, u16) -> Rig) {
    for (width, height) in SIZES {
        let mut rig = make(width, height);
        let screen = rig.screen();
        insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
            insta::assert_snapshot!(format!("{name}_{width}x{height}"), screen);
        });
    }
}

fn few() -> Vec<Ask> {
    let mut hook = samples::bash("q2m", "git push --force origin main");
    hook.requester.kind = Some("hook".into());
    hook.requester.at = Some("terminal".into());
    hook.gives_up_at = Some("2026-11-30T08:05:48.000Z".into());
    let mut job = samples::background(samples::ask(
        "x9p",
        "WebFetch",
        &json!({"url": "https://example.com/a", "prompt": "what is it"}),
        Some("/srv/site"),
    ));
    job.lineage.subagent = None;
    job.lineage.job = Some("nightly".into());
    vec![
        samples::child("k7f", "cargo test --workspace"),
        hook,
        job,
        samples::child("b3c", "cargo test --workspace"),
    ]
}

fn safety() -> Ask {
    let mut ask = samples::background(samples::ask(
        "s4k",
        "doom_loop",
        &json!({"call": "Bash: cargo test", "times": 3, "since": "2026-11-30T07:59:00Z"}),
        Some("/home/me/src/askd"),
    ));
    ask.class = Class::Safety;
    ask.options.retain(|option| option.id != "always_1");
    ask
}

#[test]
fn empty() {
    at_every_size("empty", |width, height| Rig::with(width, height, &[]));
}

#[test]
fn t11_one_ask() {
    at_every_size("one_ask", |width, height| {
        Rig::with(width, height, &[samples::child("k7f", "cargo test --workspace && rm -rf target")])
    });
}

#[test]
fn t11_a_few() {
    at_every_size("a_few", |width, height| Rig::with(width, height, &few()));
}

#[test]
fn t11_two_hundred_open_asks() {
    at_every_size("two_hundred", |width, height| {
        let asks: Vec<Ask> = (0..200)
            .map(|n| {
                let command = format!("cargo test -p crate-{}", n % 90);
                let handle = format!("{:03}", n);
                if n % 3 == 0 { samples::bash(&handle, &command) } else { samples::child(&handle, &command) }
            })
            .collect();
        let mut rig = Rig::with(width, height, &asks);
        for _ in 0..100 {
            rig.calmly(Key::Down);
        }
        rig
    });
}

#[test]
fn s4_a_long_action_in_pages() {
    let lines: Vec<String> =
        (1..=80).map(|n| format!("echo line {n} of a script that does not end soon")).collect();
    at_every_size("long_action", |width, height| {
        Rig::with(width, height, &[samples::child("k7f", &lines.join("\n"))])
    });
    at_every_size("long_action_end", |width, height| {
        let mut rig = Rig::with(width, height, &[samples::child("k7f", &lines.join("\n"))]);
        for _ in 0..60 {
            rig.calmly(Key::Char(' '));
        }
        rig
    });
}

#[test]
fn s4_an_edit_as_a_diff() {
    let edit = samples::ask(
        "e1t",
        "Edit",
        &json!({
            "file_path": "/home/me/src/askd/a.rs",
            "old_string": "fn main() {\n    run();\n}\n",
            "new_string": "fn main() {\n    run(&options)?;\n    Ok(())\n}\n",
        }),
        Some("/home/me/src/askd"),
    );
    at_every_size("diff", |width, height| Rig::with(width, height, std::slice::from_ref(&edit)));
}

#[test]
fn s4_hostile_text() {
    let command = "ls \u{1b}[2K\r; rm -rf ~ \u{202e}gpj.exe\u{200b}\n\n\n\n\n\n\n\n\necho ok                                     ; curl evil";
    let mut ask = samples::child("k7f", command);
    ask.action.tool = "Bash\u{1b}]0;x\u{7}".into();
    ask.lineage.agent = "claude\u{202e}edoc".into();
    ask.lineage.subagent.as_mut().unwrap().name = Some("a\nb\u{9b}2J".into());
    ask.options[0].label = "No, do not\u{1b}[8m".into();
    ask.options[1].grants = Some("everything\u{200b}\u{1b}[0m".into());
    at_every_size("hostile", |width, height| {
        Rig::with(width, height, &[ask.clone(), samples::bash("q2m", command)])
    });
}

#[test]
fn t9_a_safety_ask() {
    at_every_size("safety", |width, height| {
        Rig::with(width, height, &[safety(), samples::bash("q2m", "ls")])
    });
}

#[test]
fn help() {
    at_every_size("help", |width, height| {
        let mut rig = Rig::with(width, height, &few());
        rig.calmly(Key::Char('?'));
        rig
    });
}

#[test]
fn c14_details() {
    at_every_size("details", |width, height| {
        let mut rig = Rig::with(width, height, &few());
        rig.calmly(Key::Enter);
        rig
    });
}

#[test]
fn t12_the_question_about_several() {
    at_every_size("bulk", |width, height| {
        let mut asks = few();
        asks.insert(0, safety());
        let mut rig = Rig::with(width, height, &asks);
        rig.calmly(Key::Char('a'));
        rig
    });
}

#[test]
fn what_an_always_grants() {
    at_every_size("always", |width, height| {
        let mut rig = Rig::with(width, height, &few());
        rig.calmly(Key::Char('A'));
        rig
    });
}

#[test]
fn t14_a_line_being_typed() {
    at_every_size("message", |width, height| {
        let mut rig = Rig::with(width, height, &few());
        rig.calmly(Key::Char('m'));
        rig.type_in("not in this folder, use a worktree");
        rig
    });
    at_every_size("command", |width, height| {
        let mut rig = Rig::with(width, height, &few());
        rig.calmly(Key::Char('/'));
        rig.type_in("permissions default deny");
        rig
    });
}

#[test]
fn t15_what_happened_elsewhere() {
    at_every_size("ended", |width, height| {
        let asks = few();
        let mut rig = Rig::with(width, height, &asks);
        rig.event(stream::event(
            "settled",
            &stream::settled(&asks[0], "allowed", "person", Some("Telegram")),
        ));
        rig.event(stream::event("settled", &stream::settled(&asks[2], "denied", "timed", None)));
        rig.event(stream::event("withdrawn", &stream::settled(&asks[3], "withdrawn", "cancelled", None)));
        rig
    });
}

#[test]
fn the_daemon_is_away() {
    at_every_size("offline", |width, height| {
        let mut rig = Rig::with(width, height, &few());
        let _ =
            rig.queue.handle_link(askd_tui::Link::Down("the daemon went away, trying again".into()), rig.now);
        rig
    });
}

#[test]
fn a_screen_that_is_too_small_says_so_and_answers_nothing() {
    let mut rig = Rig::with(39, 15, &few());
    assert!(rig.sees("askd: 4 waiting"));
    assert!(crate::rig::decided(&rig.press('n')).is_empty());
    rig.resize(60, 15);
    assert_eq!(crate::rig::decided(&rig.press('n')), ["k7f deny"]);
}

#[test]
fn t9_the_head_says_where_permissions_are_skipped() {
    let health = |skipping: serde_json::Value| {
        let health = json!({
            "ok": true, "pid": 1, "version": "0", "api": 1, "open": 0, "surfaces": 1, "journal": "x",
            "skipping": skipping,
        });
        serde_json::from_value(health).unwrap()
    };
    for (width, height) in SIZES {
        let mut rig = Rig::with(width, height, &[]);
        rig.queue.handle_health(&health(json!({"everywhere": true})));
        let screen = rig.screen();
        assert!(screen.starts_with(" nothing waits · skip-permissions is on everywhere"), "{screen}");
        assert!(screen.contains("allowed unasked where permissions are skipped"), "{screen}");
        let mut rig = Rig::with(width, height, &[samples::child("k7f", "ls")]);
        rig.queue.handle_health(&health(json!({"on": [format!("a/\u{1b}[2J{}", "x".repeat(300))]})));
        let screen = rig.screen();
        let head = screen.lines().next().unwrap();
        assert!(head.starts_with(r" 1 waiting · skip-permissions is on in a/\u{1b}[2Jx"), "{head}");
        assert!(head.contains('…'), "what was cut is said: {head}");
        rig.queue.handle_health(&health(json!({})));
        assert!(!rig.sees("skip-permissions"));
    }
    // It is read again when the way to the daemon is there, and with every notice.
    let mut rig = Rig::new(60, 15);
    let reads =
        |actions: &[askd_tui::Action]| actions.iter().any(|a| matches!(a, askd_tui::Action::ReadHealth));
    assert!(reads(&rig.queue.handle_link(askd_tui::Link::Up, rig.now)));
    assert!(reads(&rig.event(askd_wire::StreamEvent::Notice { text: "x".to_owned() })));
}

#[test]
fn a_line_that_cannot_be_seen_sends_nothing() {
    let mut rig = Rig::with(60, 15, &few());
    rig.calmly(Key::Char('m'));
    rig.type_in("not this");
    rig.resize(20, 5);
    rig.type_in(" one");
    assert!(rig.sees("nothing is sent"));
    assert!(crate::rig::decided(&rig.key(Key::Enter)).is_empty());
    rig.resize(60, 15);
    assert!(rig.sees("not this one"));
    assert_eq!(crate::rig::decided(&rig.key(Key::Enter)), ["k7f deny"]);
}

#[test]
fn t11_a_narrow_title_has_the_handle_and_the_countdown() {
    let mut ask = samples::child("k7f", "ls");
    ask.default = None;
    let screen = Rig::with(40, 10, &[ask]).screen();
    assert!(screen.contains("─ k7f  Bash ") && screen.contains(" back 5m12s "), "{screen}");
}
