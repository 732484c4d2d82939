//! Advice for an unknown name: the nearest known name, or the command that lists names.

use headroom_rules::slo::nearest::nearest;

/// Advice for an unknown node, to append to a message.
pub(crate) fn node_advice<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    nearest(name, known).map_or_else(
        || "see `kubectl get nodes`".to_owned(),
        |near| format!("did you mean {near}?"),
    )
}

/// Advice for an unknown kubeconfig context, to append to a message.
pub(crate) fn context_advice<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    nearest(name, known).map_or_else(
        || "see `kubectl config get-contexts`".to_owned(),
        |near| format!("did you mean {near}?"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_gets_the_nearest_name_or_a_command() {
        let nodes = ["control-plane", "worker-1"];
        assert_eq!(node_advice("wroker-1", nodes), "did you mean worker-1?");
        assert_eq!(node_advice("db", nodes), "see `kubectl get nodes`");
        assert_eq!(context_advice("prd", ["prod", "dev"]), "did you mean prod?");
        assert_eq!(context_advice("x", []), "see `kubectl config get-contexts`");
    }
}
