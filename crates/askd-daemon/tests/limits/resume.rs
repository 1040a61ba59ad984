//! A stream that is resumed after so long that the journal has forgotten some of what happened.

use askd_journal::{Journal as _, OpenOptions, SqliteJournal};
use askd_wire::StreamEvent;
use serde_json::json;

use crate::common::{World, answer, ask, post, raise};

#[test]
fn a_resumed_stream_never_hides_that_something_was_removed_meanwhile() {
    for other in [false, true] {
        let mut world = World::start();
        let raised = raise(&mut world.requester(), &ask("k1", "ls"));
        let mut events = world.person().events(None, None).unwrap();
        let shown = events.receive().unwrap().unwrap();
        let StreamEvent::Snapshot { position, asks } = shown.event else { panic!("{shown:?}") };
        assert_eq!(asks.len(), 1);
        drop(events);
        let route = format!("/v1/asks/{}", raised.id);
        let mut person = world.person_connection();
        assert_eq!(
            post(&mut person, &format!("{route}/answer"), &answer(&raised.digest, "deny")).status,
            200
        );
        assert_eq!(post(&mut world.requester(), &format!("{route}/confirmed"), &json!({})).status, 204);
        drop(person);
        world.leave("restart");
        let mut journal =
            SqliteJournal::open(world.places.state_dir().join("journal.sqlite"), OpenOptions::default())
                .unwrap();
        assert!(journal.prune(i64::MAX, 100).unwrap() > 0);
        drop(journal);
        world.up();
        if other {
            raise(&mut world.requester(), &ask("k2", "pwd"));
        }
        let mut events = world.person().events(None, Some(position)).unwrap();
        let first = events.receive().unwrap().unwrap().event;
        assert!(matches!(first, StreamEvent::Gap { after } if after == position), "{first:?}");
        let then = events.receive().unwrap().unwrap().event;
        let StreamEvent::Snapshot { asks, .. } = then else { panic!("{then:?}") };
        assert_eq!(asks.len(), usize::from(other), "{asks:?}");
        assert!(asks.iter().all(|ask| ask.id != raised.id));
    }
}
