//! Creates Events in the API server.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::{Duration, SystemTime},
};

use futures::future::BoxFuture;
use headroom_domain::names;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};
use tokio::time::timeout;

use super::{EventFact, EventObject, EventRow};
use crate::store::access::{Access, AccessNamespace, ObjectNames};

/// Namespace of Events about objects without a namespace.
const NAMESPACE: &str = "default";
/// Longest note that the API server takes, in bytes.
const LONGEST_NOTE: usize = 1_024;
/// Maximum length of the part of a name that comes from the object, in bytes; a name has at most 253.
const LONGEST_NAME: usize = 200;
/// Longest name of a reporting instance that the API server takes, in bytes.
const LONGEST_INSTANCE: usize = 128;
/// Suffix of a shortened note.
const CUT: &str = "...";
/// Timeout of a request to the API server.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// API access that publishing needs about quotas, which are in any namespace.
pub static QUOTA_ACCESS: Access = Access::to("events.k8s.io", "events", ObjectNames::All, &["create"]);

/// API access for Events about cluster-scoped objects and about our Secret.
pub static ACCESS: &[Access] = &[
    Access::to("events.k8s.io", "events", ObjectNames::All, &["create"]).in_namespace(AccessNamespace::Own),
    Access::to("events.k8s.io", "events", ObjectNames::All, &["create"])
        .in_namespace(AccessNamespace::Named(NAMESPACE)),
];

/// Why an Event is not there.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The API server refuses it, or cannot be reached.
    #[error("the API server did not accept the Event")]
    Api(#[source] Box<kube::Error>),
    #[error("the API server did not answer within {WRITE_LIMIT:?}")]
    Slow,
}

/// Result of creating an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventResult {
    Created,
    Present,
}

pub trait EventWriter: Send + Sync {
    /// Creates an Event, unless it is there.
    fn create<'a>(
        &'a self,
        row: &'static EventRow,
        fact: &'a EventFact,
    ) -> BoxFuture<'a, Result<EventResult, EventError>>;
}

/// The API server as writer.
pub struct EventClient {
    client: Client,
    replica: String,
}

impl EventClient {
    /// Creates Events with this client's rights, in the name of that replica.
    pub fn new(client: Client, replica: &str) -> Self {
        let start = replica
            .get(..replica.floor_char_boundary(LONGEST_INSTANCE))
            .unwrap_or_default();
        Self {
            client,
            replica: start.to_owned(),
        }
    }

    fn event(&self, row: &EventRow, fact: &EventFact, now: SystemTime) -> Event {
        let EventFact {
            regarding,
            note,
            occurrence: _,
        } = fact;
        let EventObject {
            api_version,
            kind,
            namespace,
            name,
            uid,
        } = regarding;
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(row, fact)),
                namespace: Some(namespace_of(regarding).to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Timestamp::try_from(now).ok().map(MicroTime),
            reporting_controller: Some(names::EVENT_REPORTER.to_owned()),
            reporting_instance: Some(self.replica.clone()),
            action: Some(row.action.to_owned()),
            reason: Some(row.reason.to_owned()),
            type_: Some(row.event_type.name().to_owned()),
            note: Some(cut(note)),
            regarding: Some(ObjectReference {
                api_version: Some((*api_version).to_owned()),
                kind: Some((*kind).to_owned()),
                namespace: (!namespace.is_empty()).then(|| namespace.clone()),
                name: Some(name.clone()),
                uid: Some(uid.clone()),
                ..ObjectReference::default()
            }),
            ..Event::default()
        }
    }
}

impl EventWriter for EventClient {
    fn create<'a>(
        &'a self,
        row: &'static EventRow,
        fact: &'a EventFact,
    ) -> BoxFuture<'a, Result<EventResult, EventError>> {
        Box::pin(async move {
            let event = self.event(row, fact, SystemTime::now());
            let params = PostParams::default();
            let events: Api<Event> = Api::namespaced(self.client.clone(), namespace_of(&fact.regarding));
            let created = timeout(WRITE_LIMIT, events.create(&params, &event)).await;
            match created.map_err(|_elapsed| EventError::Slow)? {
                Ok(_) => Ok(EventResult::Created),
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(EventResult::Present),
                Err(error) => Err(EventError::Api(Box::new(error))),
            }
        })
    }
}

/// Namespace for an Event about an object: Kubernetes accepts no other.
fn namespace_of(regarding: &EventObject) -> &str {
    match regarding.namespace.as_str() {
        "" => NAMESPACE,
        namespace => namespace,
    }
}

/// The name follows from object, note and occurrence, so that replicas make one Event and no second.
fn event_name(row: &EventRow, fact: &EventFact) -> String {
    let EventFact {
        regarding: EventObject { name, uid, kind, .. },
        note,
        occurrence,
    } = fact;
    let mut hasher = DefaultHasher::new();
    (row.reason, kind, uid, note, occurrence).hash(&mut hasher);
    let start = name
        .get(..name.floor_char_boundary(LONGEST_NAME))
        .unwrap_or_default();
    // A part of a name does not end in a dot or a dash.
    let start = start.trim_end_matches(['.', '-']);
    format!("{start}.{:016x}", hasher.finish())
}

fn cut(note: &str) -> String {
    if note.len() <= LONGEST_NOTE {
        return note.to_owned();
    }
    let room = LONGEST_NOTE - CUT.len();
    let start = note.get(..note.floor_char_boundary(room)).unwrap_or_default();
    format!("{start}{CUT}")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response, StatusCode};
    use http_body_util::{BodyExt as _, Full};
    use kube::client::Body;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::control::events::invalid_profiles;

    fn fact(name: &str, note: &str) -> EventFact {
        EventFact {
            regarding: EventObject {
                api_version: "config.koordinator.sh/v1alpha1",
                kind: "ClusterColocationProfile",
                namespace: String::new(),
                name: name.to_owned(),
                uid: "u1".to_owned(),
            },
            note: note.to_owned(),
            occurrence: String::new(),
        }
    }

    /// Writes to an API server that answers with that code, and returns the request body.
    async fn write(code: u16, fact: &EventFact) -> (Result<EventResult, EventError>, Value) {
        let (sent_tx, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let service = tower::service_fn(move |request: Request<Body>| {
            let sent_tx = sent_tx.clone();
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let event: Value = serde_json::from_slice(&body).unwrap();
                let namespace = event["metadata"]["namespace"].as_str().unwrap();
                assert_eq!(
                    path,
                    format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events")
                );
                sent_tx.send(event.clone()).unwrap();
                let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": "x", "message": "m"});
                let answer = if code == 201 { event } else { status };
                let mut answer = Response::new(Full::from(answer.to_string()));
                *answer.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, Infallible>(answer)
            }
        });
        let client = EventClient::new(Client::new(service, "n"), "webhook-a");
        let result = client.create(&invalid_profiles::ROW, fact).await;
        (result, sent.recv().await.unwrap())
    }

    #[tokio::test]
    async fn an_event_is_created_or_there_already() {
        let (created, event) = write(201, &fact("p", "spec.selector is invalid")).await;
        assert_eq!(created.unwrap(), EventResult::Created);
        assert_eq!(
            (
                &event["type"],
                &event["reason"],
                &event["note"],
                &event["reportingInstance"]
            ),
            (
                &json!("Warning"),
                &json!("ProfileInvalid"),
                &json!("spec.selector is invalid"),
                &json!("webhook-a")
            )
        );
        assert_eq!(
            (&event["regarding"]["name"], &event["regarding"]["uid"]),
            (&json!("p"), &json!("u1"))
        );
        let (present, again) = write(409, &fact("p", "spec.selector is invalid")).await;
        assert_eq!(present.unwrap(), EventResult::Present);
        assert_eq!(event["metadata"], again["metadata"], "the same name");
        let (_, other) = write(409, &fact("p", "another fault")).await;
        assert_ne!(event["metadata"]["name"], other["metadata"]["name"]);
        let mut later = fact("p", "spec.selector is invalid");
        later.occurrence = "2".to_owned();
        let (_, other) = write(409, &later).await;
        assert_ne!(event["metadata"]["name"], other["metadata"]["name"]);
        assert!(matches!(
            write(403, &fact("p", "x")).await.0,
            Err(EventError::Api(_))
        ));
    }

    #[rstest]
    #[case::of_a_namespace("team", "team", json!("team"))]
    #[case::of_none("", "default", Value::Null)]
    #[tokio::test]
    async fn an_event_is_in_the_namespace_of_its_object(
        #[case] namespace: &str,
        #[case] place: &str,
        #[case] regarding: Value,
    ) {
        let mut fact = fact("q", "above");
        fact.regarding.namespace = namespace.to_owned();
        let (_, event) = write(201, &fact).await;
        assert_eq!(event["metadata"]["namespace"], place);
        assert_eq!(event["regarding"]["namespace"], regarding);
    }

    #[rstest]
    #[case::long("p".repeat(253))]
    #[case::dots(format!("{}.-{}", "p".repeat(198), "q".repeat(53)))]
    #[tokio::test]
    async fn names_and_notes_are_as_long_as_the_api_server_takes(#[case] name: String) {
        let (_, event) = write(201, &fact(&name, &"ä".repeat(5_000))).await;
        let event_name = event["metadata"]["name"].as_str().unwrap();
        assert!(
            event_name.len() <= 253 && !event_name.contains("-."),
            "{event_name}"
        );
        let note = event["note"].as_str().unwrap();
        assert!(
            (1_000..=LONGEST_NOTE).contains(&note.len()) && note.ends_with("ä..."),
            "{}",
            note.len()
        );
    }
}
