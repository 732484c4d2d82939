//! Tests of the informer in simulated time, against a fake API server that stalls, forgets, refuses and is quiet.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::store::{arrivals::Arrivals, quota_pods::counting::QuotaCounting};

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

const NONE: [Value; 0] = [];
/// A watch of a cluster in which nothing changes.
const QUIET: Then = Then::Ends(Duration::MAX);

/// Script of one watch: events, and then this end.
struct WatchScript {
    events: Vec<Value>,
    then: Then,
}

/// End of a watch after its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Then {
    /// It stays open and carries nothing.
    #[default]
    Stalls,
    /// It ends after the requested time, or after this time if that is sooner.
    Ends(Duration),
    /// It is refused with that status.
    IsRefused(u16),
}

/// Presence of the resource according to discovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Served {
    /// It is served, and discovery lists it.
    #[default]
    Yes,
    /// It has not; it knows other kinds of the group.
    No,
    /// It has not, nor the group.
    NoGroup,
    /// It finds nothing for a moment, and names the kind.
    Hidden,
    /// It refuses to list and to watch.
    Forbidden,
    /// Requests for it are not found, and discovery does not answer.
    Mute,
}

/// An API server with one ConfigMap, of resource version 1 at the first list and one more at each other.
#[derive(Default)]
struct Server {
    watches: Mutex<VecDeque<WatchScript>>,
    rest: Mutex<Then>,
    lists: AtomicUsize,
    /// Further items of each list.
    others: Vec<Value>,
    /// Lists that are refused, from the first on.
    refusals: usize,
    served: Mutex<Served>,
    not_found: AtomicUsize,
    /// Questions which kinds there are.
    discoveries: AtomicUsize,
}

impl Server {
    fn answer(&self, request: &Request<Body>) -> Response<ResponseBody> {
        let query = request.uri().query().unwrap_or_default();
        let served = *self.served.lock().unwrap();
        if request.uri().path() == "/apis/g.example/v1" {
            return self.kinds(served);
        }
        match served {
            Served::Yes => {}
            Served::Forbidden => return refusal(403),
            Served::No | Served::NoGroup | Served::Hidden | Served::Mute => {
                self.not_found.fetch_add(1, Ordering::Relaxed);
                return refusal(404);
            }
        }
        if query.contains("watch=true") {
            assert!(query.contains("allowWatchBookmarks=true"), "{query}");
            let asked = query
                .split('&')
                .find_map(|part| part.strip_prefix("timeoutSeconds="));
            let asked = Duration::from_secs(asked.unwrap().parse().unwrap());
            let watch = self
                .watches
                .lock()
                .unwrap()
                .pop_front()
                .unwrap_or_else(|| WatchScript {
                    events: Vec::new(),
                    then: *self.rest.lock().unwrap(),
                });
            return watch.answer(asked);
        }
        let lists = self.lists.fetch_add(1, Ordering::Relaxed) + 1;
        if lists <= self.refusals {
            return refusal(429);
        }
        let items = [self.others.clone(), vec![config_map(lists)]].concat();
        let list = json!({
            "kind": "ConfigMapList", "apiVersion": "v1",
            "metadata": {"resourceVersion": lists.to_string()}, "items": items,
        });
        Response::new(Full::from(list.to_string()).boxed_unsync())
    }

    fn kinds(&self, served: Served) -> Response<ResponseBody> {
        self.discoveries.fetch_add(1, Ordering::Relaxed);
        let kind = |name: &str| json!({"name": name, "kind": "K", "namespaced": true, "singularName": "", "verbs": []});
        let kinds = match served {
            Served::Yes | Served::Hidden | Served::Forbidden => json!([kind("others"), kind("configmaps")]),
            Served::No => json!([kind("others")]),
            Served::NoGroup => return refusal(404),
            Served::Mute => return refusal(503),
        };
        let list = json!({"kind": "APIResourceList", "groupVersion": "g.example/v1", "resources": kinds});
        Response::new(Full::from(list.to_string()).boxed_unsync())
    }

    fn serve(&self, served: Served) {
        *self.served.lock().unwrap() = served;
    }

    fn not_found(&self) -> usize {
        self.not_found.load(Ordering::Relaxed)
    }
}

impl WatchScript {
    fn answer(self, asked: Duration) -> Response<ResponseBody> {
        let Self { events, then } = self;
        let lines = events.into_iter().map(|event| format!("{event}\n"));
        let lines = stream::iter(lines.map(|line| Ok(Frame::data(Bytes::from(line)))));
        let ends_after = |pause| stream::once(sleep(pause)).filter_map(async |()| None);
        let frames = match then {
            Then::IsRefused(code) => return refusal(code),
            Then::Stalls => lines.chain(stream::pending()).boxed(),
            Then::Ends(after) => lines.chain(ends_after(after.min(asked))).boxed(),
        };
        Response::new(StreamBody::new(frames).boxed_unsync())
    }
}

fn refusal(code: u16) -> Response<ResponseBody> {
    let mut refusal = Response::new(Empty::new().boxed_unsync());
    *refusal.status_mut() = StatusCode::from_u16(code).unwrap();
    refusal
}

fn config_map(version: usize) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "c", "namespace": "n", "resourceVersion": version.to_string()},
    })
}

fn watch(events: impl IntoIterator<Item = Value>, then: Then) -> WatchScript {
    WatchScript {
        events: events.into_iter().collect(),
        then,
    }
}

fn modified(version: usize) -> Value {
    json!({"type": "MODIFIED", "object": config_map(version)})
}

fn server(watches: impl IntoIterator<Item = WatchScript>, rest: Then) -> Arc<Server> {
    Arc::new(Server {
        watches: Mutex::new(watches.into_iter().collect()),
        rest: Mutex::new(rest),
        ..Server::default()
    })
}

/// Keeps the resource version of the ConfigMap; may become unknown once watches have failed for this time. Also keeps the
/// names of unreadable objects, in order.
#[derive(Default)]
struct Latest(Mutex<u64>, Option<Duration>, Mutex<Vec<String>>);

impl Store for Latest {
    type Listing = u64;
    type Object = ConfigMap;

    fn list(listing: &mut u64, object: ConfigMap) {
        *listing = version(&object);
    }

    fn replace(&self, listing: u64) {
        *self.0.lock().unwrap() = listing;
    }

    fn apply(&self, object: ConfigMap) {
        *self.0.lock().unwrap() = version(&object);
    }

    fn delete(&self, _: ConfigMap) {
        *self.0.lock().unwrap() = 0;
    }

    fn list_unreadable(&self, _: &mut u64, object: ConfigMap) {
        self.2
            .lock()
            .unwrap()
            .push(format!("listed {}", object.metadata.name.unwrap()));
    }

    fn apply_unreadable(&self, object: ConfigMap) {
        let version = version(&object);
        self.2
            .lock()
            .unwrap()
            .push(format!("{} {version}", object.metadata.name.unwrap()));
    }

    fn set_known(&self, _: bool) {}

    fn fails_within(&self) -> Option<Duration> {
        self.1
    }
}

/// A store that follows a server.
struct Follower {
    store: Arc<Latest>,
    is_known: watch::Receiver<bool>,
    began: Instant,
    _following: AbortOnDropHandle<()>,
}

impl Follower {
    fn start(server: &Arc<Server>) -> Self {
        Self::start_with(server, Presence::Always, None)
    }

    /// Starts an informer with a store that becomes unknown once watches have failed for this time.
    fn start_strict(server: &Arc<Server>, limit: Duration) -> Self {
        Self::start_with(server, Presence::Always, Some(limit))
    }

    /// Follows a kind that the server may lack.
    fn start_custom(server: &Arc<Server>) -> Self {
        Self::start_with(
            server,
            Presence::Custom {
                group: "g.example",
                version: "v1",
            },
            None,
        )
    }

    fn start_with(server: &Arc<Server>, presence: Presence, limit: Option<Duration>) -> Self {
        let asked = Arc::clone(server);
        let service = tower::service_fn(move |request| {
            let answer = asked.answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        let api = Api::namespaced(Client::new(service, "n"), "n");
        let store = Arc::new(Latest(Mutex::default(), limit, Mutex::default()));
        let (is_known_tx, is_known) = watch::channel(false);
        let subject = Subject {
            name: "configmaps",
            presence,
        };
        let stop = CancellationToken::new();
        let following = follow(
            subject,
            api,
            Arc::clone(&store),
            (is_known_tx, LastActivity::default()),
            stop,
        );
        Self {
            store,
            is_known,
            began: Instant::now(),
            _following: AbortOnDropHandle::new(tokio::spawn(following)),
        }
    }

    /// Waits until the store has that version; how long that took from the beginning.
    async fn until(&self, wanted: u64) -> Duration {
        timeout(Duration::from_secs(600), async {
            while *self.store.0.lock().unwrap() != wanted {
                sleep(Duration::from_millis(50)).await;
            }
        })
        .await
        .unwrap();
        self.began.elapsed()
    }

    /// Waits until the store is known, or unknown; how long that took from the beginning.
    async fn until_known(&mut self, is_known: bool) -> Duration {
        let changed = self.is_known.wait_for(|now| *now == is_known);
        timeout(Duration::from_secs(600), changed).await.unwrap().unwrap();
        self.began.elapsed()
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_open_and_says_nothing_is_given_up() {
    let server = server(
        [watch(NONE, Then::Stalls), watch([modified(7)], Then::Stalls)],
        Then::Stalls,
    );
    let took = Follower::start(&server).until(7).await;
    assert!(took > seconds(60) && took < seconds(70), "{took:?}");
    assert_eq!(server.lists.load(Ordering::Relaxed), 1, "it goes on where it was");
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_has_forgotten_is_listed_anew() {
    let gone = json!({
        "type": "ERROR",
        "object": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"},
    });
    let server = server([watch([gone], Then::Stalls)], Then::Stalls);
    let took = Follower::start(&server).until(2).await;
    assert!(took < seconds(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_never_came_as_far_is_listed_anew() {
    let ahead = json!({
        "type": "ERROR",
        "object": {
            "kind": "Status", "status": "Failure", "code": 504, "reason": "Timeout", "message": "too large",
            "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "too large"}]},
        },
    });
    let server = server([watch([ahead], Then::Stalls)], Then::Stalls);
    let took = Follower::start(&server).until(2).await;
    assert!(took < seconds(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_refuses_is_asked_ever_more_rarely() {
    let server = Arc::new(Server {
        refusals: 10,
        ..Server::default()
    });
    let took = Follower::start(&server).until(11).await;
    // 0.2, 0.4 ... 3.2, then 5 s each: 31.4 s, each cut by up to a half.
    assert!(took > seconds(15) && took < seconds(33), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn store_is_unknown_after_90_seconds_without_watch_events() {
    let server = server([], Then::Stalls);
    let mut follower = Follower::start(&server);
    assert!(follower.until_known(true).await < seconds(1));
    let lost = follower.until_known(false).await;
    assert!(lost >= seconds(90) && lost < seconds(92), "{lost:?}");
    assert_eq!(follower.until(1).await, lost, "what it had is there still");
    sleep(seconds(510)).await;
    assert!(!*follower.is_known.borrow(), "ten minutes later");

    server
        .watches
        .lock()
        .unwrap()
        .push_back(watch([modified(9)], Then::Stalls));
    follower.until_known(true).await;
    assert_eq!(*follower.store.0.lock().unwrap(), 9);
    assert_eq!(server.lists.load(Ordering::Relaxed), 1, "it goes on where it was");
}

#[tokio::test(start_paused = true)]
async fn a_store_is_unknown_after_90_seconds_in_which_its_watches_fail() {
    for then in [
        Then::IsRefused(403),
        Then::IsRefused(500),
        Then::Ends(Duration::ZERO),
    ] {
        let server = server([], then);
        let mut follower = Follower::start(&server);
        follower.until_known(true).await;
        let lost = follower.until_known(false).await;
        assert!(lost >= seconds(90) && lost < seconds(92), "{then:?}: {lost:?}");
        *server.rest.lock().unwrap() = QUIET;
        let back = follower.until_known(true).await;
        assert!(back < lost + seconds(20), "{then:?}: {back:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_needs_a_watch_that_works_is_unknown_soon_after_it_fails() {
    for then in [Then::IsRefused(500), Then::Ends(Duration::ZERO)] {
        let server = server([], then);
        let mut follower = Follower::start_strict(&server, seconds(15));
        follower.until_known(true).await;
        let lost = follower.until_known(false).await;
        assert!(lost >= seconds(15) && lost < seconds(18), "{then:?}: {lost:?}");
        *server.rest.lock().unwrap() = QUIET;
        follower.until_known(true).await;
        follower.is_known.mark_unchanged();
        sleep(seconds(3600)).await;
        assert!(
            !follower.is_known.has_changed().unwrap(),
            "{then:?}: a quiet cluster"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_is_known_as_long_as_its_watches_end_when_they_should() {
    let server = server([], QUIET);
    let mut follower = Follower::start(&server);
    follower.until_known(true).await;
    follower.is_known.mark_unchanged();
    sleep(seconds(3600)).await;
    assert!(!follower.is_known.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_signs_of_life() {
    let bookmark = json!({
        "type": "BOOKMARK",
        "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}},
    });
    // Each watch begins with a bookmark and is cut before it could end as asked.
    let cut = (0..20).map(|_| watch([bookmark.clone()], Then::Ends(seconds(8))));
    let server = server(cut, Then::Stalls);
    let mut follower = Follower::start(&server);
    follower.until_known(true).await;
    follower.is_known.mark_unchanged();
    sleep(seconds(150)).await;
    assert!(!follower.is_known.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn one_dead_connection_does_not_make_a_quiet_cluster_unknown() {
    let stall = || watch(NONE, Then::Stalls);
    let quiet = || watch(NONE, QUIET);
    let server = server([stall(), quiet(), quiet(), stall(), quiet(), stall()], QUIET);
    let mut follower = Follower::start(&server);
    follower.until_known(true).await;
    follower.is_known.mark_unchanged();
    sleep(seconds(900)).await;
    assert!(!follower.is_known.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_cuts_quiet_connections_makes_no_quiet_cluster_unknown() {
    // A proxy that ends connections after twenty idle seconds.
    let server = server([], Then::Ends(seconds(20)));
    let mut follower = Follower::start(&server);
    follower.until_known(true).await;
    follower.is_known.mark_unchanged();
    sleep(seconds(1200)).await;
    assert!(!follower.is_known.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_there_has_no_objects_and_is_followed_once_it_comes() {
    for absent in [Served::No, Served::NoGroup, Served::Mute] {
        let server = server([], QUIET);
        server.serve(absent);
        let mut follower = Follower::start_custom(&server);
        let known = follower.until_known(true).await;
        assert!(known < seconds(1), "{absent:?}: {known:?}");
        follower.is_known.mark_unchanged();
        sleep(seconds(600)).await;
        assert!(
            !follower.is_known.has_changed().unwrap(),
            "{absent:?}: it stays known"
        );
        let asked = server.not_found();
        assert!(
            (20..=21).contains(&asked),
            "{absent:?}: asked {asked} times in ten minutes"
        );
        server.serve(Served::Yes);
        let came = Instant::now();
        follower.until(1).await;
        assert!(came.elapsed() <= seconds(31), "{absent:?}: {:?}", came.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_takes_its_objects_with_it_and_may_come_back() {
    for absent in [Served::No, Served::NoGroup] {
        let server = server([], QUIET);
        let mut follower = Follower::start_custom(&server);
        follower.until(1).await;
        server.serve(absent);
        let gone = Instant::now();
        // The watch that is open lasts a minute.
        follower.until(0).await;
        assert!(gone.elapsed() <= seconds(65), "{absent:?}: {:?}", gone.elapsed());
        follower.is_known.mark_unchanged();
        sleep(seconds(300)).await;
        assert!(
            !follower.is_known.has_changed().unwrap(),
            "{absent:?}: it stays known"
        );
        assert_eq!(server.discoveries.load(Ordering::Relaxed), 1, "{absent:?}");
        server.serve(Served::Yes);
        follower.until(2).await;
        follower.until_known(true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_found_for_a_moment_stays() {
    for hidden in [Served::Hidden, Served::Mute] {
        let server = server([watch([modified(7)], Then::Ends(seconds(1)))], QUIET);
        let mut follower = Follower::start_custom(&server);
        follower.until(7).await;
        server.serve(hidden);
        follower.is_known.mark_unchanged();
        sleep(seconds(60)).await;
        assert!(
            server.not_found() > 3 && server.discoveries.load(Ordering::Relaxed) > 3,
            "{hidden:?}"
        );
        assert!(!follower.is_known.has_changed().unwrap(), "{hidden:?}");
        assert_eq!(*follower.store.0.lock().unwrap(), 7, "{hidden:?}");
        server.serve(Served::Yes);
        sleep(seconds(20)).await;
        assert_eq!(
            server.lists.load(Ordering::Relaxed),
            1,
            "{hidden:?}: it goes on where it was"
        );
        server.serve(hidden);
        let lost = Instant::now();
        follower.until_known(false).await;
        assert!(lost.elapsed() >= seconds(60), "{hidden:?}: {:?}", lost.elapsed());
        assert_eq!(
            *follower.store.0.lock().unwrap(),
            7,
            "{hidden:?}: not empty, but unknown"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_not_look_does_not_know_and_is_not_told_that_there_are_none() {
    let server = server([], QUIET);
    server.serve(Served::Forbidden);
    let mut follower = Follower::start_custom(&server);
    sleep(seconds(300)).await;
    assert!(!*follower.is_known.borrow(), "it never knew");
    server.serve(Served::Yes);
    assert!(follower.until_known(true).await < seconds(310));
    server.serve(Served::Forbidden);
    let lost = Instant::now();
    follower.until_known(false).await;
    assert!(lost.elapsed() <= seconds(60 + 92), "{:?}", lost.elapsed());
    assert_eq!(*follower.store.0.lock().unwrap(), 1);
    server.serve(Served::No);
    follower.until(0).await;
    assert!(*follower.is_known.borrow(), "now it is certain");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_every_cluster_has_is_never_taken_for_absent() {
    let server = server([], QUIET);
    server.serve(Served::NoGroup);
    let follower = Follower::start(&server);
    sleep(seconds(300)).await;
    assert!(!*follower.is_known.borrow());
    assert_eq!(server.discoveries.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn unreadable_objects_spoil_neither_list_nor_watch() {
    let unreadable = |name: &str, version: usize| {
        json!({
            "metadata": {
                "name": name, "namespace": "n", "resourceVersion": version.to_string(),
                "deletionTimestamp": "10000-01-01T00:00:00Z",
            },
            "data": [name],
        })
    };
    let event = |kind: &str, object: Value| json!({"type": kind, "object": object});
    let events = [
        event("MODIFIED", unreadable("b", 7)),
        event("ADDED", json!(5)),
        event("DELETED", unreadable("c", 8)),
        modified(9),
    ];
    let server = Arc::new(Server {
        watches: Mutex::new([watch(events, QUIET)].into()),
        rest: Mutex::new(QUIET),
        others: vec![unreadable("a", 1), json!(["no object"])],
        ..Server::default()
    });
    let follower = Follower::start(&server);
    follower.until(9).await;
    assert_eq!(*follower.store.2.lock().unwrap(), ["listed a", "b 7"]);
    assert_eq!(server.lists.load(Ordering::Relaxed), 1, "the watch goes on");
    assert!(*follower.is_known.borrow());
}

/// Number of pods in the list of a tenant, and the length of a text in each.
const LARGE_PODS: usize = 40;
const LARGE_TEXT: usize = 1_200_000;

/// A list of large pods, in parts of 64 KiB.
fn large_pods() -> Response<ResponseBody> {
    let head = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":["#;
    let pods = (0..LARGE_PODS).flat_map(|number| {
        let comma = if number == 0 { "" } else { "," };
        let begun = format!(
            r#"{comma}{{"metadata":{{"name":"p{number}","namespace":"n","uid":"{number}","resourceVersion":"1"}},
            "spec":{{"nodeName":"n1","containers":[{{"name":"c","env":[{{"name":"A","value":""#
        );
        let value = std::iter::repeat_n("x".repeat(LARGE_TEXT / 20), 20);
        let end = r#""}],"resources":{"requests":{"cpu":"1"}}}]}}"#.to_owned();
        [begun].into_iter().chain(value).chain([end])
    });
    let parts = [head.to_owned()].into_iter().chain(pods).chain(["]}".to_owned()]);
    let frames = parts.map(|part| Ok(Frame::data(Bytes::from(part))));
    Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync())
}

#[test]
fn list_of_large_pods_needs_the_memory_of_few() {
    let pods = crate::store::quota_pods::QuotaPods::new(QuotaCounting::default(), Arrivals::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let measured = allocation_counter::measure(|| {
        let _entered = runtime.enter();
        let service = tower::service_fn(|request: Request<Body>| async move {
            let is_watch = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true"));
            let quiet = || Response::new(StreamBody::new(stream::pending()).boxed_unsync());
            Ok::<_, Infallible>(if is_watch { quiet() } else { large_pods() })
        });
        let api = Api::all(Client::new(service, "n"));
        let subject = Subject {
            name: "quota-pods",
            presence: Presence::Always,
        };
        let (is_known_tx, mut is_known) = watch::channel(false);
        let signs = (is_known_tx, LastActivity::default());
        runtime.block_on(async {
            let following = follow(subject, api, Arc::clone(&pods), signs, CancellationToken::new());
            let _following = AbortOnDropHandle::new(tokio::spawn(following));
            is_known.wait_for(|is_known| *is_known).await.unwrap();
        });
    });
    assert_eq!(pods.counts().0, LARGE_PODS);
    // An item, its text as it is collected, and the object that it becomes.
    let most = 8 * LARGE_TEXT as u64;
    assert!(measured.bytes_max < most, "{} bytes", measured.bytes_max);
}
