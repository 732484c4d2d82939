//! A made-up API server that stalls, forgets and refuses; time is made up too.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::*;

type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// What the API server answers to a watch: events, and whether it ends then or stalls.
struct Watch {
    events: Vec<Value>,
    stalls: bool,
}

/// An API server with one ConfigMap, of resource version 1 at the first list and one more at each other.
#[derive(Default)]
struct Server {
    watches: Mutex<VecDeque<Watch>>,
    lists: AtomicUsize,
    /// Lists that are refused, from the first on.
    refusals: usize,
}

impl Server {
    fn answer(&self, request: &Request<Body>) -> Response<Answer> {
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        if is_watch {
            let watch = self.watches.lock().unwrap().pop_front();
            let frames = watch.map_or_else(|| stream::pending().boxed(), Watch::frames);
            return Response::new(StreamBody::new(frames).boxed_unsync());
        }
        let lists = self.lists.fetch_add(1, Ordering::Relaxed) + 1;
        if lists <= self.refusals {
            let mut refusal = Response::new(Empty::new().boxed_unsync());
            *refusal.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            return refusal;
        }
        let list = json!({
            "kind": "ConfigMapList", "apiVersion": "v1",
            "metadata": {"resourceVersion": lists.to_string()}, "items": [config_map(lists)],
        });
        Response::new(Full::from(list.to_string()).boxed_unsync())
    }
}

impl Watch {
    fn frames(self) -> stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>> {
        let Self { events, stalls } = self;
        let lines = events.into_iter().map(|event| format!("{event}\n"));
        let lines = stream::iter(lines.map(|line| Ok(Frame::data(Bytes::from(line)))));
        if stalls {
            lines.chain(stream::pending()).boxed()
        } else {
            lines.boxed()
        }
    }
}

fn config_map(version: usize) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "c", "namespace": "n", "resourceVersion": version.to_string()},
    })
}

/// Keeps the resource version of the ConfigMap.
#[derive(Default)]
struct Latest(Mutex<u64>);

impl Store for Latest {
    type Listing = u64;
    type Object = ConfigMap;

    const RESOURCE: &'static str = "configmaps";

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
}

/// Follows the server until the store has that version; how long that took.
async fn until(server: &Arc<Server>, wanted: u64) -> Duration {
    let asked = Arc::clone(server);
    let service = tower::service_fn(move |request| {
        let answer = asked.answer(&request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let api = Api::namespaced(Client::new(service, "n"), "n");
    let store = Arc::new(Latest::default());
    let (synced_tx, _synced) = oneshot::channel();
    let began = Instant::now();
    let following = follow(api, Arc::clone(&store), synced_tx, CancellationToken::new());
    let has_it = async {
        while *store.0.lock().unwrap() != wanted {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(600), async {
        select! {
            () = following => panic!("nobody told it to stop"),
            () = has_it => {}
        }
    })
    .await
    .unwrap();
    began.elapsed()
}

fn server(watches: impl IntoIterator<Item = Watch>) -> Arc<Server> {
    Arc::new(Server {
        watches: Mutex::new(watches.into_iter().collect()),
        ..Server::default()
    })
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_open_and_says_nothing_is_given_up() {
    let server = server([
        Watch {
            events: Vec::new(),
            stalls: true,
        },
        Watch {
            events: vec![json!({"type": "MODIFIED", "object": config_map(7)})],
            stalls: true,
        },
    ]);
    let took = until(&server, 7).await;
    assert!(
        took > Duration::from_secs(60) && took < Duration::from_secs(70),
        "{took:?}"
    );
    assert_eq!(server.lists.load(Ordering::Relaxed), 1, "it goes on where it was");
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_has_forgotten_is_listed_anew() {
    let gone = json!({
        "type": "ERROR",
        "object": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"},
    });
    let server = server([Watch {
        events: vec![gone],
        stalls: true,
    }]);
    let took = until(&server, 2).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_refuses_is_asked_ever_more_rarely() {
    let server = Arc::new(Server {
        refusals: 10,
        ..Server::default()
    });
    let took = until(&server, 11).await;
    // 0.2, 0.4 ... 3.2, then 5 s each: 31.4 s, each cut by up to a half.
    assert!(
        took > Duration::from_secs(15) && took < Duration::from_secs(33),
        "{took:?}"
    );
}
