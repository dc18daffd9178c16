"""What all benches share: machine, figures, report, workloads."""
