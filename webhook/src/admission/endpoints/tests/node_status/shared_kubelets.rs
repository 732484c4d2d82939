//! Tests of kubelets that share one user of the group `system:nodes`, and of users that look like such kubelets.

use super::*;

/// Allocatable CPU of a node of 4 CPUs at 1.50 after its machine grew to 6 CPUs and that user sent a sync.
async fn grown(user: &str, groups: &[&str]) -> String {
    let mut node = NodeFixture::amplified(r#"{"cpu":1.5}"#).await;
    assert_eq!(node.cpu(), "6");
    let user = json!({"username": user, "groups": groups});
    // A kubelet sends the difference to its copy of the Node: raw equals the stored 6, and capacity has changed.
    node.write_as(&user, true, |object| {
        object["status"]["capacity"]["cpu"] = "66".into();
    })
    .await;
    node.cpu().to_owned()
}

#[tokio::test]
async fn machine_that_grows_is_amplified_from_its_new_size_for_kubelets_with_one_user() {
    for user in ["system:node:n1", "system:node", "system:node:", "kubelet"] {
        assert_eq!(
            grown(user, &["system:nodes", "system:authenticated"]).await,
            "9",
            "{user}"
        );
    }
}

#[tokio::test]
async fn users_outside_the_group_and_other_nodes_are_no_kubelet_of_the_node() {
    for (user, groups) in [
        ("system:node", &["system:authenticated"] as &[&str]),
        ("kubelet", &["system:masters"]),
        ("system:node:n2", &["system:nodes"]),
    ] {
        assert_eq!(grown(user, groups).await, "6", "{user}");
    }
}
