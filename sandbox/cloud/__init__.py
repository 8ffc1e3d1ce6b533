"""EC2, Pricing and Cost Explorer, driven by botocore's service models.

`server.Cloud` is the whole of it; `spec` describes what one can say about a cloud. From the wire inwards:

| module | what |
|---|---|
| `server`, `access`, `codec`, `faults` | one HTTP server; who calls; requests and answers by botocore's models; what goes wrong |
| `ec2`, `ec2_catalog`, `fleets`, `templates` | EC2's actions; `shapes`, `filters`, `paging` are how they answer |
| `orders`, `launches`, `allocation`, `tokens`, `throttle` | what a launch checks, takes and repeats |
| `region`, `machine`, `market`, `types` | state: machines, capacity, prices, spot; facts about types |
| `join`, `node`, `user_data` | a machine's way into its cluster and out of it |
| `costs`, `bill`, `bill_filters`, `cost_explorer`, `pricing` | money |
"""
