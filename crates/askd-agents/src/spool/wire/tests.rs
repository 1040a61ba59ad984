use askd_wire::{ChoiceKind, OutcomeKind, Verdict};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const OLD: &str = r#"{"id":"1796026230778-rcfxai9l-13240","createdAt":1796026230778,
 "requesterSessionId":"child-1","targetSessionId":"parent-abc","requesterAgentName":"unknown",
 "message":"Current agent requested bash command 'touch a' (full command: 'touch a && echo done')."}"#;
const MIDDLE: &str = r#"{"id":"1796026230778-rcfxai9l-13240","createdAt":1796026230778,
 "requesterSessionId":"child-1","targetSessionId":"parent-abc","requesterAgentName":"gated",
 "message":"Current agent requested bash command 'touch a' (full command: 'touch a && echo done').",
 "source":"tool_call","surface":"bash","value":"touch a",
 "sessionApproval":{"surface":"bash","patterns":["touch *"]}}"#;
const NEWEST: &str = r#"{"id":"perm_1.a-B","createdAt":1796026230778,
 "requesterSessionId":"child-1","targetSessionId":"parent-abc","requesterAgentName":"gated",
 "payload":{"request":{"surface":"bash","value":"touch a","matchedPattern":"*"}},
 "surface":"bash","value":"touch a",
 "sessionApproval":{"grants":[{"surface":"bash","pattern":"touch *"},{"surface":"bash","pattern":"ls"}]},
 "accessIntent":{"surface":"bash","matchValues":["touch a"],"boundaryValue":null,"requesterCwd":"/w",
  "principal":{"sessionId":"child-1","agentName":"gated"}}}"#;
const OWN: &str =
    r#"{"askd":1,"id":"r-1","tool":"Bash","input":{"command":"touch a"},"session":"s2","later":1}"#;

fn get(text: &str, stem: &str) -> Request {
    read(text.as_bytes(), stem, "parent-abc", PI_LIMIT).unwrap()
}

fn outcome(verdict: Verdict, cause: &str) -> Outcome {
    Outcome {
        outcome: match verdict {
            Verdict::Allow => OutcomeKind::Allowed,
            Verdict::Deny => OutcomeKind::Denied,
            Verdict::None => OutcomeKind::Withdrawn,
        },
        cause: cause.to_owned(),
        source: None,
        surface: None,
        by: None,
        option: None,
        message: None,
        stop: false,
        settled_at: "2026-11-30T08:00:00.000Z".to_owned(),
        verdict,
        reason_for_model: (verdict == Verdict::Deny)
            .then(|| "no answer arrived; nobody denied it".to_owned()),
        text: "what became of it".to_owned(),
        extra: Map::new(),
    }
}

fn object(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn f11_every_version_is_read_with_its_lineage_and_everything_it_says() {
    for (text, stem, newest) in [
        (OLD, "1796026230778-rcfxai9l-13240", false),
        (MIDDLE, "1796026230778-rcfxai9l-13240", false),
        (NEWEST, "perm_1.a-B", true),
    ] {
        let request = get(text, stem);
        assert_eq!(request.format, Format::Pi { newest });
        assert_eq!(request.pid, (!newest).then_some(13240));
        let raise = request.raise(Some(Duration::from_secs(590)), Duration::from_secs(600), 0);
        assert_eq!((raise.agent.as_str(), raise.session.as_str()), ("pi", "parent-abc"));
        assert_eq!(raise.parent, None);
        assert_eq!(raise.subagent.as_ref().unwrap().work_id, "child-1");
        assert_eq!(raise.gives_up_secs, Some(590));
        assert_eq!(raise.tool_call.as_deref(), Some(stem));
        let input = raise.action.input.unwrap();
        let full = if newest { "touch a" } else { "touch a && echo done" };
        assert!(input.get().contains(full), "{}", input.get());
        let name = raise.subagent.unwrap().name;
        assert_eq!(name.as_deref(), (text != OLD).then_some("gated"));
    }
    assert_eq!(get(NEWEST, "perm_1.a-B").raise(None, PI_LIMIT, 0).action.cwd.as_deref(), Some("/w"));
    let own = get(OWN, "r-1").raise(None, PI_LIMIT, 0);
    assert_eq!(own.action.input.unwrap().get(), r#"{"command":"touch a"}"#, "byte for byte");
    assert_eq!((own.session.as_str(), own.parent.as_deref()), ("parent-abc", None));
    assert_eq!(own.subagent.unwrap().work_id, "s2");
    assert_eq!(own.extra["spool"]["later"], 1);
    assert_eq!(own.gives_up_secs, None);
}

/// A file that names another session would otherwise move that below its own directory, or use what a person set for it.
#[test]
fn s2_which_session_a_request_belongs_to_is_said_by_its_directory_alone() {
    for (text, stem) in [(OLD, "1796026230778-rcfxai9l-13240"), (NEWEST, "perm_1.a-B"), (OWN, "r-1")] {
        for other in ["trusted", "parent-abc", "../x"] {
            let text = text
                .replace("\"child-1\"", &json!(other).to_string())
                .replace("\"s2\"", &json!(other).to_string());
            let raise = get(&text, stem).raise(None, PI_LIMIT, 0);
            assert_eq!((raise.session.as_str(), raise.parent.as_deref()), ("parent-abc", None), "{other}");
            let child = raise.subagent.map(|child| child.work_id);
            assert_eq!(child.as_deref(), (other != "parent-abc").then_some(other));
        }
    }
}

#[test]
fn f12_session_grants_are_offered_only_as_what_they_are_and_given_only_when_chosen() {
    let kinds = |request: &Request| request.options.iter().map(|o| o.kind).collect::<Vec<_>>();
    assert_eq!(
        kinds(&get(OLD, "1796026230778-rcfxai9l-13240")),
        [ChoiceKind::AllowOnce, ChoiceKind::RejectOnce]
    );
    let request = get(NEWEST, "perm_1.a-B");
    assert_eq!(request.options[1].grants.as_deref(), Some("bash touch *, bash ls"));
    let middle = get(MIDDLE, "1796026230778-rcfxai9l-13240");
    assert_eq!(middle.options[1].grants.as_deref(), Some("bash touch *"));

    let mut yes = outcome(Verdict::Allow, "person");
    assert_eq!(object(&middle.answer(&yes, 5))["state"], "approved");
    yes.option = Some("allow_once".to_owned());
    assert_eq!(object(&middle.answer(&yes, 5))["state"], "approved");
    yes.option = Some(FOR_SESSION.to_owned());
    assert_eq!(object(&middle.answer(&yes, 5))["state"], "approved_for_session");
    // One that cannot be told in full is not offered.
    for odd in [
        r#"{"grants":[]}"#,
        r#"{"grants":[{"surface":"bash"}]}"#,
        r#"{"surface":"bash","patterns":[1]}"#,
        "7",
    ] {
        let text = MIDDLE.replace(r#"{"surface":"bash","patterns":["touch *"]}"#, odd);
        assert_eq!(get(&text, "1796026230778-rcfxai9l-13240").options.len(), 2, "{odd}");
    }
}

#[test]
fn f12_only_a_persons_no_goes_without_a_reason() {
    let (old, newest) = (get(OLD, "1796026230778-rcfxai9l-13240"), get(NEWEST, "perm_1.a-B"));
    let plain = object(&old.answer(&outcome(Verdict::Deny, "person"), 7));
    let expected =
        json!({"approved":false,"state":"denied","responderSessionId":"parent-abc","respondedAt":7});
    assert_eq!(plain, expected);
    let mut words = outcome(Verdict::Deny, "person");
    words.message = Some("not in this folder".to_owned());
    assert_eq!(object(&old.answer(&words, 7))["denialReason"], "not in this folder");
    assert_eq!(object(&old.answer(&words, 7))["state"], "denied_with_reason");
    assert_eq!(object(&newest.answer(&words, 7))["decidedBy"], json!({"kind":"user","via":"dialog"}));
    for cause in ["timed", "overflow", "unreachable", "rule", "remote_timeout"] {
        let told = object(&newest.answer(&outcome(Verdict::Deny, cause), 7));
        assert_eq!(told["denialReason"], "no answer arrived; nobody denied it", "{cause}");
        assert_eq!(told["decidedBy"]["kind"], "authorizer");
        assert!(object(&old.answer(&outcome(Verdict::Deny, cause), 7)).get("decidedBy").is_none());
    }
    for cause in ["cancelled", "requester_limit", "session_ended"] {
        let told = object(&newest.answer(&outcome(Verdict::None, cause), 7));
        assert_eq!(
            (told["approved"].as_bool(), told["decidedBy"]["kind"].as_str()),
            (Some(false), Some("unavailable"))
        );
        assert!(told["denialReason"].as_str().unwrap().contains("nobody denied it"));
        assert_eq!(
            object(&get(OWN, "r-1").answer(&outcome(Verdict::None, cause), 7))["outcome"],
            "withdrawn"
        );
    }
}

#[test]
fn f13_what_does_not_agree_with_its_place_is_not_used() {
    let fails = |text: &str, stem: &str| read(text.as_bytes(), stem, "parent-abc", PI_LIMIT).unwrap_err();
    assert_eq!(fails(OLD, "other"), Unreadable::OtherId);
    for id in ["../../x", "..", "a/b", "", "a b"] {
        let text = OWN.replace("r-1", id);
        assert_eq!(fails(&text, id), Unreadable::OtherId, "{id}");
    }
    let text = OLD.replace("parent-abc", "../../etc");
    assert_eq!(fails(&text, "1796026230778-rcfxai9l-13240"), Unreadable::OtherSession);
    assert_eq!(fails(&OWN.replace(":1,", ":2,"), "r-1"), Unreadable::Newer(2));
    assert_eq!(fails(&OWN.replace(":1,", ":\"1\","), "r-1"), Unreadable::Field("askd"));
    assert!(matches!(fails("[1]", "r-1"), Unreadable::NotJson(_)));
    assert!(matches!(fails(&OLD[..40], "r-1"), Unreadable::NotJson(_)));
    for field in ["id", "createdAt", "requesterSessionId", "targetSessionId", "requesterAgentName"] {
        let text = OLD.replace(&format!("\"{field}\""), "\"gone\"");
        assert_eq!(fails(&text, "1796026230778-rcfxai9l-13240"), Unreadable::Field(field));
    }
    let told = object(&unreadable("r-1", "parent-abc", "it is torn", 7));
    assert_eq!(
        (told["approved"].as_bool(), told["state"].as_str()),
        (Some(false), Some("denied_with_reason"))
    );
    assert_eq!((told["outcome"].as_str(), told["id"].as_str()), (Some("unavailable"), Some("r-1")));
}

#[test]
fn f10_only_old_ids_name_a_process() {
    for (id, pid) in [
        ("1796026230778-rcfxai9l-13240", Some(13240)),
        ("1796026230778-rcfxai9l-1", None),
        ("1796026230778-RCF-13240", None),
        ("perm-1-13240", None),
        ("1796026230778-a-1-2", None),
        ("1796026230778-a-99999999999", None),
    ] {
        let text = OLD.replace("1796026230778-rcfxai9l-13240", id);
        assert_eq!(get(&text, id).pid, pid, "{id}");
    }
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let causes = prop::sample::select(vec![
        "person",
        "timed",
        "overflow",
        "remote_timeout",
        "unreachable",
        "rule",
        "skip",
        "agent",
        "cancelled",
        "session_ended",
        "requester_gone",
        "requester_limit",
        "handed_back",
        "what is to come",
    ]);
    let verdicts = prop::sample::select(vec![Verdict::Allow, Verdict::Deny, Verdict::None]);
    let options = prop::option::of(prop::sample::select(vec!["allow_once", FOR_SESSION, "reject_once", "?"]));
    (causes, verdicts, options, prop::option::of(".{0,40}")).prop_map(|(cause, verdict, option, message)| {
        Outcome { option: option.map(str::to_owned), message, ..outcome(verdict, cause) }
    })
}

/// The corpus of the fuzz target `spool`, on the stable compiler.
#[test]
fn s6_the_corpus_of_the_fuzzer_is_read_without_a_fault() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/spool");
    let mut read_well = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
        let stem = String::from_utf8_lossy(parts.next().unwrap()).into_owned();
        let file = parts.next().unwrap_or_default();
        for target in ["s", "parent-abc"] {
            let Ok(request) = read(file, &stem, target, PI_LIMIT) else { continue };
            read_well += 1;
            assert!(request.id == stem && request.target == target && is_safe_stem(&stem));
            serde_json::to_vec(&request.raise(request.limit, PI_LIMIT, 0)).unwrap();
            let told = object(&request.unavailable("why", 1));
            assert!(told["approved"] != true && told["outcome"] != "allowed");
        }
    }
    assert!(read_well >= 4);
}

#[test]
fn f11_that_nobody_could_be_asked_is_nobodys_no_whoever_of_us_wrote_it_and_in_whatever_version() {
    for (text, stem) in [
        (OLD, "1796026230778-rcfxai9l-13240"),
        (MIDDLE, "1796026230778-rcfxai9l-13240"),
        (NEWEST, "perm_1.a-B"),
        (OWN, "r-1"),
    ] {
        let request = get(text, stem);
        assert_eq!(says(&request.unavailable("no room", 7)), None, "{text}");
        assert_eq!(says(&request.answer(&outcome(Verdict::Deny, "person"), 7)), Some(false), "{text}");
        assert_eq!(says(&request.answer(&outcome(Verdict::Allow, "person"), 7)), Some(true), "{text}");
    }
    assert_eq!(says(&unreadable("a", "s", "torn", 7)), None);
    // Somebody else's no is one, whatever its reason is about.
    let text = json!({"approved": false, "state": "denied_with_reason", "denialReason": "it is unavailable"});
    assert_eq!(says(text.to_string().as_bytes()), Some(false));
    let text = json!({"approved": false, "state": "denied", "decidedBy": {"kind": "unavailable"}});
    assert_eq!(says(text.to_string().as_bytes()), None);
}

proptest! {
    #[test]
    fn f12_approved_and_state_agree_and_only_an_allowing_outcome_is_a_yes(outcome in any_outcome()) {
        for (text, stem) in [(OLD, "1796026230778-rcfxai9l-13240"), (NEWEST, "perm_1.a-B")] {
            let told = object(&get(text, stem).answer(&outcome, 7));
            let approved = told["approved"].as_bool().unwrap();
            let state = told["state"].as_str().unwrap();
            prop_assert_eq!(approved, outcome.verdict == Verdict::Allow);
            prop_assert_eq!(approved, state.starts_with("approved"));
            prop_assert!(["approved", "approved_for_session", "denied", "denied_with_reason"].contains(&state));
            // A no without a reason is told to the model as the user's.
            prop_assert!(state != "denied" || outcome.cause == "person");
            prop_assert_eq!(state == "denied_with_reason", told["denialReason"].is_string());
            prop_assert_eq!(told["responderSessionId"].as_str(), Some("parent-abc"));
        }
        let told = object(&get(OWN, "r-1").answer(&outcome, 7));
        prop_assert_eq!(told["outcome"] == "allowed", outcome.verdict == Verdict::Allow);
        prop_assert_eq!(told["outcome"] == "denied", outcome.verdict == Verdict::Deny);
    }

    #[test]
    fn s6_no_bytes_make_a_request_of_another_place(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..400_usize) {
        let _ = read(&bytes, "a", "s", PI_LIMIT);
        for text in [OLD, MIDDLE, NEWEST, OWN] {
            let mut torn = text.as_bytes().to_vec();
            torn.truncate(cut);
            torn.extend_from_slice(&bytes);
            if let Ok(request) = read(&torn, "a", "s", PI_LIMIT) {
                prop_assert!(request.id == "a" && request.target == "s");
            }
        }
    }
}
