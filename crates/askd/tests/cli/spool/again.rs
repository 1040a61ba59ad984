//! Names that are used again, and answers of an earlier run.

use super::*;

#[test]
fn f2_an_id_that_is_used_again_is_asked_again_and_never_gets_the_answer_to_another_request() {
    let (world, tree) = started();
    let server = serve(&world, &tree, &[]);
    // Fetched, and the next one has its name at once.
    tree.write("s", "deploy", &own("deploy", "stage", &[])).unwrap();
    answer(&world, "allow", "stage", &[]);
    tree.fetch("s", "deploy");
    tree.write("s", "deploy", &own("deploy", "production", &[])).unwrap();
    answer(&world, "deny", "production", &[]);
    assert_eq!(tree.fetch("s", "deploy")["outcome"], "denied");
    // Not fetched, by a requester that is gone; also when askd was started anew in between.
    tree.write("s", "job", &own("job", "make a", &[])).unwrap();
    answer(&world, "allow", "make a", &[]);
    tree.answer("s", "job");
    server.signal(Signal::KILL);
    drop(server);
    tree.write("s", "job", &own("job", "make b", &[])).unwrap();
    let _server = serve(&world, &tree, &[]);
    world.open("make b");
    until("the first answer is gone", || (!tree.response("s", "job").exists()).then_some(()));
    answer(&world, "deny", "make b", &[]);
    assert_eq!(tree.fetch("s", "job")["outcome"], "denied");
    // With its whole directory.
    tree.write("s", "once", &own("once", "make c", &[])).unwrap();
    answer(&world, "allow", "make c", &[]);
    tree.answer("s", "once");
    remove(&tree.session("s"));
    until("written", || tree.write("s", "once", &own("once", "make d", &[])).ok());
    answer(&world, "deny", "make d", &[]);
    assert_eq!(tree.fetch("s", "once")["outcome"], "denied");
}

#[test]
fn f5_an_answer_that_lies_in_place_when_askd_is_started_anew_is_confirmed_or_removed() {
    let (world, tree) = started();
    let server = serve(&world, &tree, &[]);
    let mut requester = Command::new("sleep").arg("600").spawn().unwrap();
    for (stem, more) in [("fetched", vec![]), ("left", vec![("pid", json!(requester.id()))])] {
        tree.write("s", stem, &own(stem, stem, &more)).unwrap();
        answer(&world, "allow", stem, &[]);
        tree.answer("s", stem);
        delivery(&world, stem, "handed");
    }
    server.signal(Signal::KILL);
    drop(server);
    let server = serve(&world, &tree, &[]);
    until("the next one serves it", || {
        let record = fs::read(tree.dir.join("serving/s.json")).ok()?;
        let record: Value = serde_json::from_slice(&record).ok()?;
        (record["pid"] == server.pid().as_raw_pid()).then_some(())
    });
    assert_eq!(tree.fetch("s", "fetched")["outcome"], "allowed");
    delivery(&world, "fetched", "confirmed");
    requester.kill().unwrap();
    requester.wait().unwrap();
    until("what nobody comes for is gone", || tree.requests_and_responses().is_empty().then_some(()));
    assert_eq!(settled(&world, "left")["delivery"], "handed", "nobody fetched it");
    assert_eq!((times_asked(&world, "fetched"), times_asked(&world, "left")), (1, 1));
}
