//! What every Headroom process needs: arguments, logs, metrics, admin port, TLS, supervision.
