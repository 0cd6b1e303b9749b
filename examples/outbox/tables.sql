CREATE TABLE orders (number text PRIMARY KEY, customer text NOT NULL);

CREATE TABLE outbox (position bigserial PRIMARY KEY, number text NOT NULL, customer text NOT NULL, sent boolean NOT NULL DEFAULT false);

CREATE TABLE bookings (booked bigserial PRIMARY KEY, number text NOT NULL UNIQUE, customer text NOT NULL);

