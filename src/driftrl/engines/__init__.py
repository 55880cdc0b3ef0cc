"""Where the runs of a study are carried out: this machine, Ray, Slurm."""
