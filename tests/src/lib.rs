//! End-to-end tests on a real kernel, a real API server and real processes.
