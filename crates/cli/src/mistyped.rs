//! What to do about a name that nothing has: the name that was probably meant, or where to find the names.

use headroom_rules::slo::nearest::nearest;

/// The end of a sentence about a node that is not there.
pub(crate) fn node_advice<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    nearest(name, known).map_or_else(
        || "see `kubectl get nodes`".to_owned(),
        |near| format!("did you mean {near}?"),
    )
}

/// The end of a sentence about a context that is not there.
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
    fn the_name_that_was_probably_meant_is_told_or_where_names_are() {
        let nodes = ["control-plane", "worker-1"];
        assert_eq!(node_advice("wroker-1", nodes), "did you mean worker-1?");
        assert_eq!(node_advice("db", nodes), "see `kubectl get nodes`");
        assert_eq!(context_advice("prd", ["prod", "dev"]), "did you mean prod?");
        assert_eq!(context_advice("x", []), "see `kubectl config get-contexts`");
    }
}
