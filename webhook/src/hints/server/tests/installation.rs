//! Tests of the debug service's answers about the installation.

use std::collections::BTreeMap;

use headroom_proto::v1alpha1::{
    EndpointRegistration, GetInstallationRequest, GetInstallationResponse, hints_client::HintsClient,
};

use super::*;
use crate::{control::registration::RegistrationFault, hints::auth::tests::agent_token};

async fn shown(site: &Site) -> GetInstallationResponse {
    let mut debug = DebugClient::new(site.channel(None).await);
    let asked = asked_by(GetInstallationRequest::default(), Some("person"));
    debug.get_installation(asked).await.unwrap().into_inner()
}

#[tokio::test]
async fn only_who_may_look_on_is_shown_the_installation() {
    let site = Site::new().await;
    let mut debug = DebugClient::new(site.channel(None).await);
    let asked = asked_by(GetInstallationRequest::default(), Some("nosy"));
    let refused = debug.get_installation(asked).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn faults_of_the_registration_are_shown_by_endpoint() {
    let site = Site::new().await;
    assert_eq!(shown(&site).await.endpoints, []);
    let fault = RegistrationFault {
        text: "there is no entry a in configuration b".to_owned(),
        is_missing: true,
    };
    let faults = BTreeMap::from([("mutate-node-status", Some(fault)), ("validate-node", None)]);
    site.registered.store(Arc::new(faults));
    let answer = shown(&site).await;
    let registration = |endpoint: &str, fault: &str, missing| EndpointRegistration {
        endpoint: endpoint.to_owned(),
        fault: fault.to_owned(),
        missing,
    };
    assert_eq!(
        answer.endpoints,
        [
            registration(
                "mutate-node-status",
                "there is no entry a in configuration b",
                true
            ),
            registration("validate-node", "", false),
        ]
    );
    assert_eq!(
        (answer.replica.as_str(), answer.version.as_str(),),
        ("webhook-a", env!("CARGO_PKG_VERSION"))
    );
    let days_left = answer.certificate_left_s / 86_400;
    assert!((364..=365).contains(&days_left), "{days_left}");
    let floor = answer.floor.unwrap();
    assert!(
        floor.trouble.contains("has not answered yet") && floor.accepted,
        "{floor:?}"
    );
}

#[tokio::test]
async fn nodes_whose_agents_are_silent_are_counted_and_agents_are_by_version() {
    let site = Site::new().await;
    for name in ["n2", "n3", "n4", "n5"] {
        let node = serde_json::json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "7"},
            "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
        });
        site.cluster.nodes.apply(serde_json::from_value(node).unwrap());
    }
    let mut agent = site.open("agent-n1").await.unwrap();
    agent.report(report(4, 120)).await;
    let answer = shown(&site).await;
    assert_eq!((answer.nodes, answer.silent_nodes), (5, 4));
    assert_eq!(answer.silent_examples, ["n2", "n3", "n4"]);
    assert_eq!(
        answer.agents_by_version.into_iter().collect::<Vec<_>>(),
        [(String::new(), 1)]
    );
}

#[tokio::test]
async fn an_agent_names_its_version_in_its_user_agent() {
    let site = Site::new().await;
    let endpoint = Endpoint::from_shared(format!("http://{}", site.address)).unwrap();
    let endpoint = endpoint.user_agent("headroom-agent/9.8.7").unwrap();
    let ca = site.place.path().join(self_signed::CA_CERT);
    let tls = client::client_config(&ca, None, &["h2"]).unwrap();
    let connector = client::Connector::new(tls, client::server_name("localhost").unwrap(), SOON);
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let (_reports, reports_rx) = mpsc::channel::<HintReport>(1);
    let request = authorized(ReceiverStream::new(reports_rx), Some(&agent_token("agent-n1")));
    let _directives = HintsClient::new(channel).report(request).await.unwrap();
    let versions = shown(&site).await.agents_by_version;
    assert_eq!(
        versions.into_iter().collect::<Vec<_>>(),
        [("9.8.7".to_owned(), 1)]
    );
}
